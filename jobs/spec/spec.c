/* spec.c - parse text to struct job_spec: tree, --set, table, checks. See
 * spec.h.
 *
 * Each step records the origin of a value. spec_sweep.c uses the steps to make
 * several jobs of one text. */
#include "jobs/spec/spec.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "jobs/schema/interpolate.h"
#include "jobs/schema/schema_dir.h"
#include "jobs/schema/schema_doc.h"
#include "jobs/spec/spec_check.h"
#include "jobs/spec/spec_read.h"
#include "jobs/text/scalar.h"
#include "jobs/text/text.h"
#include "jobs/text/timestamp.h"

void spec_reading_clear(struct reading *r)
{
    spec_clear(&r->spec);
    tree_destroy(r->root);
    free(r->dir);
    free(r->typed_dir);
}

/* The file's stem with only the characters of a name: "My job.yaml" is
 * "My-job". */
void spec_name_of_file(const char *file, char out[SPEC_NAME_CAP])
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *p = slash ? slash + 1 : file ? file : "";
    const char *dot = strrchr(p, '.');
    size_t len = dot && dot > p ? (size_t)(dot - p) : strlen(p);
    size_t n = 0;
    for (size_t i = 0; i < len && n < SPEC_NAME_CAP - 1; i++) {
        char c = p[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9');
        if (alnum || (n > 0 && (c == '.' || c == '_' || c == '-')))
            out[n++] = c;
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    out[n] = '\0';
    if (n == 0)
        (void)snprintf(out, SPEC_NAME_CAP, "job");
}

/* ---- reading ------------------------------------------------------------- */

int spec_reading_open(struct reading *r, const char *text, size_t len,
                      const struct spec_options *opt,
                      struct spec_report *report, struct error *err)
{
    if (schema_defaults(&spec_schema, &r->spec, err) < 0 ||
        schema_dir_of(opt->file, &r->dir, err) < 0 ||
        (opt->file && opt->n_sets > 0 &&
         schema_dir_typed(&r->typed_dir, err) < 0) ||
        tree_parse(text, len, report, &r->root, err) < 0)
        return -1;
    if (r->root && opt->base && spec_reading_merge(r, opt->base, err) < 0)
        return -1;
    for (size_t i = 0; r->root && i < opt->n_sets; i++)
        if (schema_graft(&spec_schema, r->root, &opt->sets[i], report, err) < 0)
            return -1;
    return r->root ? spec_torchtune(r->root, report, err) : 0;
}

struct schema_base spec_reading_base(const struct reading *r,
                                     const struct spec_options *opt)
{
    return (struct schema_base){
        .dir = r->dir, .typed_dir = r->typed_dir, .home = opt->home};
}

int spec_reading_values(struct reading *r, const struct spec_options *opt,
                        struct spec_report *report, struct error *err)
{
    const struct schema_base base = spec_reading_base(r, opt);
    if (schema_apply(&spec_schema, r->root, &base, &r->spec, r->from, report,
                     err) < 0 ||
        schema_defaults_by_case(&spec_schema, r->from, &r->spec, err) < 0)
        return -1;
    if (r->spec.name[0] == '\0')
        spec_name_of_file(opt->file, r->spec.name);
    bool is_theirs = r->spec.kind == SPEC_COMMAND && !r->spec.workdir && r->dir;
    if (is_theirs && !schema_can_say(r->dir)) {
        schema_refuse_dir(report, (struct mark){.line = 0},
                          schema_find(&spec_schema, "workdir"), r->dir);
    } else if (is_theirs) {
        r->spec.workdir = strdup(r->dir);
        if (!r->spec.workdir)
            return error_set(err, ERR_NOMEM, "directory of '%s'", opt->file);
    }
    return 0;
}

static int read_spec(const char *text, size_t len,
                     const struct spec_options *opt, struct reading *r,
                     struct spec_report *report, struct error *err)
{
    if (spec_reading_open(r, text, len, opt, report, err) < 0)
        return -1;
    if (!r->root)
        return 0;
    if (reading_fill(r->root, opt, report, err) < 0 ||
        spec_reading_values(r, opt, report, err) < 0)
        return -1;
    spec_settle(&r->spec, r->from);
    spec_check(&r->spec, r->root, r->from, opt->is_stored, report);
    return 0;
}

/* ---- env_passthrough ----------------------------------------------------- */

static const char *find_pair(const struct spec_map *m, const char *key)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->pairs[i].key, key) == 0)
            return m->pairs[i].value;
    return NULL;
}

/* The node at a path; NULL: none. */
static const struct node *node_of(const struct reading *r, const char *path)
{
    for (size_t i = 0; i < spec_schema.n; i++)
        if (strcmp(spec_schema.keys[i].path, path) == 0)
            return r->from[i].node;
    return NULL;
}

/* A time in the past is no error: the job starts as soon as it can, as with
 * sbatch. */
static void look_at_begin(const struct reading *r, double now_s,
                          struct spec_report *report)
{
    static const char path[] = "policy.begin";
    const char *text = r->spec.policy.begin;
    const struct node *from = node_of(r, path);
    struct when at;
    if (!from || !text || timestamp_parse(text, &at, NULL, NULL) < 0 ||
        at.is_after || at.s >= now_s)
        return;
    diagnostics_add(report, "W112", from->at, path, NULL,
                    "policy.begin '%.60s' is past: it starts as soon as it can",
                    text);
}

void spec_reading_look_around(const struct reading *r,
                              const struct spec_options *opt,
                              struct spec_report *report)
{
    if (opt->now_s > 0)
        look_at_begin(r, opt->now_s, report);
    const struct node *parent = node_of(r, "train.resume_from");
    if (parent && r->spec.train.resume_from)
        spec_look_for_parent(&r->spec, r->spec.train.resume_from, parent->at,
                             opt, report);
    if (opt->take_env && !opt->may_repeat)
        spec_look_for_owner(&r->spec, node_of(r, "train.output_dir"),
                            node_of(r, "checkpoint.dir"), report);
}

static int add_pair(struct spec_map *m, const char *key, const char *value,
                    struct error *err)
{
    struct spec_pair *p = &m->pairs[m->n++];
    p->key = strdup(key);
    p->value = strdup(value);
    return p->key && p->value ? 0 : error_set(err, ERR_NOMEM, "environment");
}

/* Variables that env sets itself keep their values. */
int spec_reading_take_env(struct reading *r, const char *home,
                          struct spec_report *report, struct error *err)
{
    struct spec_map *env = &r->spec.env;
    const struct spec_list *names = &r->spec.env_passthrough;
    const struct node *from = node_of(r, "env_passthrough");
    struct mark at = from ? from->at : (struct mark){.line = 0};
    struct spec_pair *pairs =
        calloc(env->n + names->n + SPEC_CACHES, sizeof(*pairs));
    if (!pairs)
        return error_set(err, ERR_NOMEM, "environment");
    for (size_t i = 0; i < env->n; i++)
        pairs[i] = env->pairs[i];
    free(env->pairs);
    env->pairs = pairs;
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->items[i];
        const char *value = getenv(name);
        if (find_pair(env, name))
            continue;
        if (!value)
            diagnostics_add(report, "W102", at, "env_passthrough", NULL,
                            "the variable '%.100s' is not set here", name);
        else if (!schema_can_say(value))
            diagnostics_add(report, "E014", at, "env_passthrough", NULL,
                            "the value of the variable '%.100s' has control "
                            "characters, ${ or over 64 KiB",
                            name);
        else if (add_pair(env, name, value, err) < 0)
            return -1;
    }
    for (int i = 0; i < SPEC_CACHES; i++) {
        const char *name, *dir = spec_check_cache_dir(&r->spec, i, &name);
        if (dir && !find_pair(env, name) && add_pair(env, name, dir, err) < 0)
            return -1;
    }
    spec_look_for_files(&r->spec, r->from, home, report);
    return 0;
}

int spec_draw_seed(int64_t *ret, struct error *err)
{
    uint32_t seed = 0;
    if (rng_secret(&seed, sizeof(seed), err) < 0)
        return -1;
    *ret = seed & INT32_MAX;
    return 0;
}

int spec_parse(const char *text, size_t len, const struct spec_options *opt,
               struct job_spec *ret, struct spec_report *report,
               struct error *err)
{
    static const struct spec_options none = {.file = NULL};
    struct reading r = {.root = NULL};

    if (!opt)
        opt = &none;
    int rc = diagnostics_init(report, err);
    if (rc == 0)
        rc = read_spec(text, len, opt, &r, report, err);
    if (rc == 0 && opt->take_env)
        rc = spec_reading_take_env(&r, opt->home, report, err);
    if (rc == 0)
        spec_reading_look_around(&r, opt, report);
    if (rc == 0)
        rc = diagnostics_verdict(report, err);
    if (rc == 0 && opt->draw_seed && r.spec.kind != SPEC_COMMAND &&
        r.spec.train.seed < 0)
        rc = spec_draw_seed(&r.spec.train.seed, err);
    if (rc == 0) {
        *ret = r.spec;
        r.spec = (struct job_spec){.version = 0};
    }
    spec_reading_clear(&r);
    return rc;
}

void spec_clear(struct job_spec *s)
{
    if (s)
        schema_clear(&spec_schema, s);
}

int spec_dump(const struct job_spec *s, struct buf *out, struct error *err)
{
    return schema_json(&spec_schema, s, spec_applies, out, err);
}

/* ---- --show -------------------------------------------------------------- */

struct shown {
    const struct reading *r;
    const struct spec_jobs *jobs;
};

static bool is_varied(const struct spec_jobs *jobs, const char *path)
{
    char key[PATH_CAP];
    (void)snprintf(key, sizeof(key), "\"%s\":", path);
    for (size_t i = 0; jobs->is_sweep && i < jobs->n; i++)
        if (strstr(jobs->tasks[i].vary, key))
            return true;
    return false;
}

static void show_place(struct mark at, char *out, size_t cap)
{
    if (at.line == 0)
        (void)snprintf(out, cap, "%s", at.option ? at.option : "--set");
    else
        (void)snprintf(out, cap, "file:%d", at.line);
}

/* A member of a mapping from another origin: file, template, options. */
static const struct node *other_origin(const struct node *n)
{
    for (const struct node *c = n->first; c; c = c->next)
        if ((c->at.line > 0) != (n->at.line > 0) ||
            spec_mark_is_base(c->at) != spec_mark_is_base(n->at))
            return c;
    return NULL;
}

/* "default", or the preset that it is of. */
static void note_default(const struct job_spec *s, const struct schema_key *k,
                         char *out, size_t cap)
{
    const struct schema_def *d = schema_default_in_case(&spec_schema, k, s);
    (void)snprintf(out, cap, "%s",
                   d && spec_case_is_preset(d->when) ? spec_case_names[d->when]
                                                     : "default");
}

static void note_origin(void *arg, size_t row, char *out, size_t cap)
{
    const struct shown *s = arg;
    const struct node *n = s->r->from[row].node;
    const char *path = spec_schema.keys[row].path;
    if (is_varied(s->jobs, path))
        (void)snprintf(out, cap, "varied, see below");
    else if (!n && strcmp(path, "name") == 0)
        (void)snprintf(out, cap, "from the file's name");
    else if (!n && strcmp(path, "workdir") == 0)
        (void)snprintf(out, cap, "the file's directory");
    else if (!n && s->r->spec.resources.gpus_per_node > 0 &&
             (strcmp(path, "resources.gpus") == 0 ||
              strcmp(path, "resources.nodes") == 0))
        (void)snprintf(out, cap, "from gpus_per_node");
    else if (!n)
        note_default(&s->r->spec, &spec_schema.keys[row], out, cap);
    else
        show_place(n->at, out, cap);
    const struct node *other = n ? other_origin(n) : NULL;
    size_t len = strlen(out);
    if (other && len + 3 < cap) {
        (void)snprintf(out + len, cap - len, ", ");
        show_place(other->at, out + len + 2, cap - len - 2);
    }
}

/* Writes the values that the tasks share, then the tasks. */
static int add_tasks(const struct spec_jobs *jobs, struct buf *out,
                     struct error *err)
{
    char cap[32] = "";
    if (jobs->max_parallel > 0)
        (void)snprintf(cap, sizeof(cap), ", %d at a time", jobs->max_parallel);
    int rc = buf_addf(out, err, "# sweep: %zu jobs%s%s\n", jobs->n, cap,
                      jobs->stop_on_fail ? ", until one fails" : "");
    for (size_t i = 0; rc == 0 && i < jobs->n; i++)
        rc = buf_addf(out, err, "# %d: %s\n", jobs->tasks[i].number,
                      jobs->tasks[i].vary);
    return rc;
}

int spec_show(const char *text, size_t len, const struct spec_options *opt,
              struct buf *out, struct error *err)
{
    struct reading r = {.root = NULL};
    struct spec_jobs jobs = {.n = 0};
    struct spec_report report = {.n = 0};
    struct spec_options quiet = *opt;
    struct shown shown = {&r, &jobs};

    quiet.draw_seed = quiet.take_env = false;
    int rc = spec_expand(text, len, &quiet, &jobs, &report, err);
    report.n = 0; /* a second parse finds the same */
    if (rc == 0)
        rc = spec_reading_open(&r, text, len, opt, &report, err);
    if (rc == 0)
        rc = spec_reading_values(&r, opt, &report, err);
    if (rc == 0)
        spec_settle(&r.spec, r.from);
    if (rc == 0)
        rc = schema_yaml(&spec_schema, &r.spec, spec_applies, note_origin,
                         &shown, out, err);
    if (rc == 0 && jobs.is_sweep)
        rc = add_tasks(&jobs, out, err);
    diagnostics_clear(&report);
    spec_jobs_clear(&jobs);
    spec_reading_clear(&r);
    return rc;
}

int spec_every(const char *s, struct spec_every *ret, struct error *err)
{
    static const struct {
        const char *word;
        enum spec_every_unit unit;
    } units[] = {{"steps", EVERY_STEPS},
                 {"step", EVERY_STEPS},
                 {"epochs", EVERY_EPOCHS},
                 {"epoch", EVERY_EPOCHS}};
    char digits[16];
    size_t n = strspn(s, "0123456789");
    int64_t count = 0;
    double seconds = 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(s + n, units[i].word) != 0)
            continue;
        (void)snprintf(digits, sizeof(digits), "%.*s", (int)n, s);
        if (n == 0 || n > 9 || scalar_int(digits, &count) < 0 || count < 1)
            return error_set(err, ERR_INVAL, "from 1 to 999999999 %s",
                             units[i].word);
        *ret = (struct spec_every){.unit = units[i].unit, .n = (double)count};
        return 0;
    }
    if (parse_duration(s, &seconds, err) < 0)
        return -1;
    if (seconds < 1)
        return error_set(err, ERR_INVAL, "less than a second");
    *ret = (struct spec_every){.unit = EVERY_SECONDS, .n = seconds};
    return 0;
}

enum spec_retry spec_retry(const char *word)
{
    static const struct {
        const char *word;
        enum spec_retry bit;
    } known[] = {
        {"node_fail", RETRY_NODE_FAIL},   {"stalled", RETRY_STALLED},
        {"signal", RETRY_SIGNAL},         {"exit", RETRY_EXIT},
        {"time_limit", RETRY_TIME_LIMIT},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].word, word) == 0)
            return known[i].bit;
    return 0;
}

static const struct {
    const char *word;
    enum spec_notify bit;
} notify_words[] = {
    {"begin", NOTIFY_BEGIN},     {"end", NOTIFY_END},
    {"fail", NOTIFY_FAIL},       {"stalled", NOTIFY_STALLED},
    {"time_80", NOTIFY_TIME_80}, {"held", NOTIFY_HELD},
    {"requeue", NOTIFY_REQUEUE},
};
enum { N_NOTIFY_WORDS = sizeof(notify_words) / sizeof(notify_words[0]) };

enum spec_notify spec_notify(const char *word)
{
    for (size_t i = 0; i < N_NOTIFY_WORDS; i++)
        if (strcmp(notify_words[i].word, word) == 0)
            return notify_words[i].bit;
    return 0;
}

const char *spec_notify_word(enum spec_notify bit)
{
    for (size_t i = 0; i < N_NOTIFY_WORDS; i++)
        if (notify_words[i].bit == bit)
            return notify_words[i].word;
    return NULL;
}

/* Training saves a checkpoint on SIGUSR1 and continues; a program without a
 * handler would die of it. */
int32_t spec_warning(const struct job_spec *s, double *ret_before_s)
{
    double limit_s = s->resources.time_limit_s;
    int32_t signo = s->resources.warn_signal;
    double before_s = s->resources.warn_before_s;

    if (signo == SPEC_WARN_AUTO)
        signo = s->kind != SPEC_COMMAND ? SIGUSR1 : 0;
    if (before_s <= 0)
        before_s = fmin(s->checkpoint.grace_s, limit_s / 2);
    if (!isfinite(limit_s))
        signo = 0;
    if (ret_before_s)
        *ret_before_s = signo > 0 ? before_s : 0;
    return signo;
}

/* Training reports every iteration. A command reports what it likes: it may
 * still run after the last iteration that it reported. */
bool spec_stall_ends(const struct job_spec *s)
{
    return s->watchdog.action == STALL_AUTO ? s->kind != SPEC_COMMAND
                                            : s->watchdog.action == STALL_END;
}

bool spec_saves(const struct job_spec *s)
{
    const char *dir =
        s->checkpoint.dir ? s->checkpoint.dir : s->train.output_dir;
    /* Another attempt would look for its checkpoints elsewhere. */
    bool moves = interpolate_has(dir, "attempt") ||
                 (interpolate_has(dir, "output_dir") &&
                  interpolate_has(s->train.output_dir, "attempt"));
    if (s->kind == SPEC_COMMAND)
        return s->saves;
    return s->checkpoint.on_signal && s->retry.resume && !moves;
}
