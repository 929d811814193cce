/* reload.c - see reload.h. */
#include "scheduler/ctld/startup/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/startup/paths.h"

/* What a daemon runs with: the configuration, and the set-up that was derived
 * from it. */
struct config {
    struct conf conf;
    struct setup setup; /* with administrators of its own */
};

struct reload {
    const struct args *args;
    const struct conf *first; /* of the start; what it says of sockets stays */
    const struct setup *setup;
    char path[SETUP_PATH_CAP]; /* "": none */
    /* running: NULL is that of the start. reload_keep() makes the candidate the
     * running one. The daemon takes that up only after its answer, so the
     * previous one is kept until the next reload. */
    struct config *candidate, *running, *previous;
};

static void config_destroy(struct config *c)
{
    if (!c)
        return;
    conf_clear(&c->conf);
    free(c->setup.admins);
    free(c);
}

int reload_create(const struct args *a, const struct conf *conf,
                  const struct setup *s, struct reload **ret, struct error *err)
{
    struct reload *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "reload");
    *r = (struct reload){.args = a, .first = conf, .setup = s};
    if (a->config &&
        paths_absolute(a->config, r->path, sizeof(r->path), err) < 0) {
        free(r);
        return -1;
    }
    *ret = r;
    return 0;
}

void reload_destroy(struct reload *r)
{
    if (!r)
        return;
    config_destroy(r->candidate);
    config_destroy(r->running);
    config_destroy(r->previous);
    free(r);
}

/* The hint of the finding that begins `text`; it ends the quoted line, or has a
 * line of its own. "": none. */
static const char *hint_of(const char *text, size_t *ret_len)
{
    static const char *const marks[] = {"^ did you mean", "~ did you mean",
                                        "      hint: "};
    const char *next = strchr(text, '\n'), *hint = "";
    while (next && next[1] == ' ' && !*hint) { /* the finding's other lines */
        const char *line = next + 1;
        next = strchr(line, '\n');
        for (size_t i = 0; i < 3 && !*hint; i++) {
            const char *at = strstr(line, marks[i]);
            if (at && (!next || at < next))
                hint = at + (i < 2 ? 2 : strlen(marks[i]));
        }
    }
    *ret_len = strcspn(hint, "\n");
    return hint;
}

/* The first finding, which names its line, with its hint; `text` may have
 * more. */
static int refuse(const char *text, struct error *err)
{
    char first[200];
    size_t len = strcspn(text, "\n"), hint_len = 0;
    const char *hint = hint_of(text, &hint_len);
    if (len == 0)
        return -1; /* err is the file's own */
    (void)snprintf(first, sizeof(first), "%.*s", (int)len, text);
    return hint_len > 0 ? error_set(err, ERR_CONFIG, "%s; %.*s", first,
                                    (int)hint_len, hint)
                        : error_set(err, ERR_CONFIG, "%s", first);
}

static const struct conf *in_force(const struct reload *r)
{
    return r->running ? &r->running->conf : r->first;
}

static int read_file(const struct reload *r, const struct spec_set *sets,
                     size_t n, struct conf *ret, struct buf *text,
                     struct error *err)
{
    if (r->path[0] == '\0')
        return error_set(err, ERR_CONFIG,
                         "the daemon was started without --config");
    if (r->setup->kind == DAEMON_SYSTEM && privileges_file(r->path, err) < 0)
        return -1;
    return conf_load_with(r->path, sets, n, ret, text, err);
}

static int read_config(const struct reload *r, bool reads_file,
                       const struct spec_set *sets, size_t n, struct config *c,
                       struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = reads_file ? read_file(r, sets, n, &c->conf, &text, err)
                        : conf_with(in_force(r), sets, n, &c->conf, &text, err);
    if (rc < 0)
        (void)refuse(buf_str(&text), err);
    buf_clear(&text);
    if (rc == 0 && !policy_find(c->conf.scheduler.policy))
        rc = error_set(err, ERR_CONFIG, "no policy '%s'",
                       c->conf.scheduler.policy);
    if (rc == 0)
        rc = setup_check_notify(&c->conf, err);
    c->setup = *r->setup;
    c->setup.admins = NULL;
    if (rc == 0)
        rc = privileges_admins(&c->conf, &c->setup.admins, &c->setup.n_admins,
                               err);
    return rc;
}

static void add_key(char *list, size_t cap, const char *path)
{
    size_t len = strlen(list);
    (void)snprintf(list + len, cap - len, "%s%s", len > 0 ? ", " : "", path);
}

static void note_change(void *arg, const char *path, bool is_live)
{
    struct ctld_fresh *f = arg;
    if (is_live)
        add_key(f->changed, sizeof(f->changed), path);
}

/* Notes a key that differs from the start's configuration and waits for a
 * restart, whatever was reloaded since. */
static void note_waiting(void *arg, const char *path, bool is_live)
{
    struct ctld_fresh *f = arg;
    if (!is_live)
        add_key(f->waiting, sizeof(f->waiting), path);
}

int reload_run(void *arg, bool reads_file, const struct spec_set *sets,
               size_t n, struct ctld_fresh *ret, struct error *err)
{
    struct reload *r = arg;
    struct config *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, ERR_NOMEM, "reload");
    if (read_config(r, reads_file, sets, n, c, err) < 0) {
        config_destroy(c);
        return -1;
    }
    *ret = (struct ctld_fresh){.policy = policy_find(c->conf.scheduler.policy),
                               .level = c->conf.log.level,
                               .format = c->conf.log.format,
                               .source = &c->conf};
    setup_ctld(&c->conf, &c->setup, &ret->conf);
    conf_changes(in_force(r), &c->conf, note_change, ret);
    conf_changes(r->first, &c->conf, note_waiting, ret);
    config_destroy(r->candidate);
    r->candidate = c;
    return 0;
}

void reload_keep(void *arg)
{
    struct reload *r = arg;
    if (!r->candidate)
        return;
    config_destroy(r->previous);
    r->previous = r->running;
    r->running = r->candidate;
    r->candidate = NULL;
}
