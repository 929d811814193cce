/* conf_check.c - what one row of the table of mgpu.yaml cannot say. */
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf_table.h"
#include "jobs/conf/conf_web.h"
#include "jobs/conf/gpu_hours.h"
#include "jobs/text/scalar.h"

const struct schema_from *conf_check_from(const struct schema_from *from,
                                          const char *path)
{
    size_t i = 0;
    while (strcmp(conf_schema.keys[i].path, path) != 0)
        i++;
    return &from[i];
}

/* "host:7431", "10.0.0.5:7431", "[::1]:7431", "*:7431". */
bool conf_check_is_address(const char *s)
{
    size_t host = *s == '[' ? strcspn(s, "]") + 1 : strcspn(s, ":");
    if (host == 0 || host > strlen(s) || s[host] != ':')
        return false;
    for (size_t i = 0; i < host; i++)
        if (s[i] <= ' ' || s[i] >= 0x7f || strchr("/@?#%", s[i]))
            return false;
    const char *port = s + host + 1;
    size_t n = strspn(port, "0123456789");
    return n > 0 && n <= 5 && port[n] == '\0' &&
           strtol(port, NULL, 10) <= 65535;
}

static bool is_url(const char *s)
{
    static const char scheme[] = "http://";
    size_t n = sizeof(scheme) - 1;
    return strncmp(s, scheme, n) == 0 && conf_check_is_address(s + n);
}

static bool is_program(const char *s)
{
    return *s && *s != '-' && !strpbrk(s, "\t\n\r");
}

/* "%u" is the one thing that is put in. */
static bool is_template(const char *s)
{
    for (; (s = strchr(s, '%')); s += 2)
        if (s[1] != 'u')
            return false;
    return true;
}

static void check_text(const struct schema_from *from, const char *path,
                       const char *value, bool (*is_fine)(const char *s),
                       const char *must_be, struct spec_report *report)
{
    const struct schema_from *f = conf_check_from(from, path);
    if (!f->node || f->bad || !value || is_fine(value))
        return;
    diagnostics_add(report, conf_schema.keys[f - from].code, f->node->at, path,
                    NULL, "'%s' must be %s", path, must_be);
}

static void check_texts(const struct conf *c, const struct schema_from *from,
                        struct spec_report *report)
{
    check_text(from, "controller.listen", c->controller.listen,
               conf_check_is_address, "HOST:PORT", report);
    check_text(from, "controller.metrics_listen", c->controller.metrics_listen,
               conf_check_is_address, "HOST:PORT", report);
    check_text(from, "controller.url", c->controller.url, is_url,
               "http://HOST:PORT", report);
    check_text(from, "controller.jobs_dir", c->controller.jobs_dir, is_template,
               "a path in which no '%' but that of %u stands", report);
    check_text(from, "local.mpirun", c->local.mpirun, is_program, "a program",
               report);
    check_text(from, "slurm.srun", c->slurm.srun, is_program, "a program",
               report);
    check_text(from, "slurm.mpirun", c->slurm.mpirun, is_program, "a program",
               report);
}

/* Workers on other machines reach the daemon by TCP alone. */
static void check_allocator(const struct conf *c,
                            const struct schema_from *from,
                            struct spec_report *report)
{
    const struct schema_from *alloc = conf_check_from(from, "allocator");
    if (c->allocator == ALLOCATOR_SLURM && !c->controller.listen &&
        !conf_check_from(from, "controller.listen")->bad)
        diagnostics_add(
            report, "E017", alloc->node->at, "allocator",
            "controller: {listen: \"HOST:PORT\"}",
            "'allocator: slurm' needs controller.listen: workers on "
            "the nodes call there");
}

static void check_group(const struct conf *c, const struct schema_from *from,
                        struct spec_report *report)
{
    static const char path[] = "controller.socket_group";
    const struct schema_from *f = conf_check_from(from, path);
    if (f->node && !f->bad && c->controller.socket_group && !c->controller.user)
        diagnostics_add(
            report, "E017", f->node->at, path, "controller: {user: mgpu}",
            "'%s' needs controller.user: the socket of a daemon that "
            "serves one user is his alone",
            path);
}

static void check_admins(const struct conf *c, const struct schema_from *from,
                         struct spec_report *report)
{
    const struct schema_from *f = conf_check_from(from, "auth.admins");
    if (!f->node || f->bad)
        return;
    const struct node *n = f->node->first;
    for (size_t i = 0; i < c->auth.admins.n; i++, n = n->next)
        if (!*n->text || strpbrk(n->text, " \t\n\r:/"))
            diagnostics_add(report, "E014", n->at, "auth.admins", NULL,
                            "each of 'auth.admins' must be the name of a user");
}

static void check_labels(const struct schema_from *from,
                         struct spec_report *report)
{
    static const char path[] = "controller.metrics_labels";
    const struct schema_from *f = conf_check_from(from, path);
    for (const struct node *n = f->node && !f->bad ? f->node->first : NULL; n;
         n = n->next)
        if (strcmp(n->text, "partition") != 0 &&
            strcmp(n->text, "gpu_type") != 0 && strcmp(n->text, "account") != 0)
            diagnostics_add(
                report, "E012", n->at, path, NULL,
                "each of '%s' must be partition, gpu_type or account", path);
}

/* No shell looks for it. */
static void check_notify(const struct schema_from *from,
                         struct spec_report *report)
{
    static const char path[] = "notify.program";
    const struct schema_from *f = conf_check_from(from, path);
    const struct node *n = f->node && !f->bad ? f->node->first : NULL;
    if (n && n->text[0] != '/')
        diagnostics_add(report, "E015", n->at, path,
                        "as in [/usr/local/bin/tell, --quiet]",
                        "the first of '%s' must be an absolute path", path);
}

/* Slurm's GRES have a type and a number, and no size. */
static void check_gpu_memory(const struct schema_from *from,
                             struct spec_report *report)
{
    static const char path[] = "slurm.gpu_memory";
    const struct schema_from *f = conf_check_from(from, path);
    struct error why = ERROR_INIT;
    int64_t bytes = 0;
    for (const struct node *n = f->node && !f->bad ? f->node->first : NULL; n;
         n = n->next) {
        if (!schema_is_name(n->key))
            diagnostics_add(report, "E014", n->key_at, path, NULL,
                            "each key of '%s' must be a type of GPUs", path);
        else if (parse_size(n->text, &bytes, &why) < 0 || bytes < 1 << 20)
            diagnostics_add(report, "E023", n->at, path, "as in {h100: 80G}",
                            "%s: %.150s", path,
                            why.code != ERR_NONE ? why.msg : "less than 1M");
    }
}

/* GPUs that would idle are worth no more than those that somebody waits for. */
static void check_floors(const struct conf *c, const struct schema_from *from,
                         struct spec_report *report)
{
    static const char path[] = "scheduler.goodput.idle_floor";
    const struct schema_from *idle = conf_check_from(from, path);
    const struct schema_from *busy =
        conf_check_from(from, "scheduler.goodput.efficiency_floor");
    if (!idle->bad && !busy->bad && (idle->node || busy->node) &&
        c->scheduler.goodput.idle_floor > c->scheduler.goodput.efficiency_floor)
        diagnostics_add(
            report, "E023", (idle->node ? idle : busy)->node->at, path,
            "a size that may idle GPUs may have is no better than one "
            "that others wait for",
            "'%s' must be 0..%g, at most "
            "scheduler.goodput.efficiency_floor",
            path, c->scheduler.goodput.efficiency_floor);
}

static void check_weights(const struct schema_from *from,
                          struct spec_report *report)
{
    static const char path[] = "scheduler.fair_share.weights";
    const struct schema_from *f = conf_check_from(from, path);
    for (const struct node *n = f->node && !f->bad ? f->node->first : NULL; n;
         n = n->next) {
        double w = 0;
        bool is_number = n->text && scalar_float(n->text, &w) == 0;
        if (!*n->key || strpbrk(n->key, " \t\n\r:/"))
            diagnostics_add(
                report, "E014", n->key_at, path, NULL,
                "each key of '%s' must be the name of a user or of an "
                "account",
                path);
        else if (!is_number || !(w > 0 && w <= 1e6))
            diagnostics_add(
                report, "E023", n->at, path, "as in {vision: 2}",
                "%s: the share of '%s' must be above 0, at most 1000000", path,
                n->key);
    }
}

static void check_gpu_hours(const struct schema_from *from,
                            struct spec_report *report)
{
    static const char path[] = "limits.gpu_hours";
    const struct schema_from *f = conf_check_from(from, path);
    for (const struct node *n = f->node && !f->bad ? f->node->first : NULL; n;
         n = n->next) {
        struct gpu_hours_limit l;
        struct error err = ERROR_INIT;
        if (!*n->key || strpbrk(n->key, " \t\n\r:/"))
            diagnostics_add(
                report, "E014", n->key_at, path, NULL,
                "each key of '%s' must be the name of a user or of an "
                "account",
                path);
        else if (gpu_hours_parse(n->text ? n->text : "", &l, &err) < 0)
            diagnostics_add(report, "E023", n->at, path,
                            "as in {vision: 5000 per 30d}", "%s: '%s' %s", path,
                            n->key, err.msg);
    }
}

void conf_check(const struct conf *c, const struct schema_from *from,
                struct spec_report *report)
{
    const struct schema_from *lost =
        conf_check_from(from, "watchdog.node_lost_after");
    const struct schema_from *beat =
        conf_check_from(from, "watchdog.heartbeat");

    if (!conf_check_from(from, "version")->node)
        diagnostics_add(report, "W001",
                        (struct mark){.line = 1, .column = 1, .width = 1},
                        "version", "begin with version: 1",
                        "'version' is missing; 1 is assumed");
    if (!lost->bad && !beat->bad && (lost->node || beat->node) &&
        c->watchdog.node_lost_after_s < 2 * c->watchdog.heartbeat_s)
        diagnostics_add(report, "E023", (lost->node ? lost : beat)->node->at,
                        "watchdog.node_lost_after",
                        "one lost heartbeat must not end a job",
                        "'watchdog.node_lost_after' must be at least twice "
                        "watchdog.heartbeat");
    check_texts(c, from, report);
    check_allocator(c, from, report);
    check_group(c, from, report);
    check_admins(c, from, report);
    check_notify(from, report);
    check_labels(from, report);
    check_gpu_memory(from, report);
    check_floors(c, from, report);
    check_weights(from, report);
    check_gpu_hours(from, report);
    conf_web_check(c, from, report);
}
