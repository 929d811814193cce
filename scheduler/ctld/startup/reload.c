/* reload.c - see reload.h. */
#include "scheduler/ctld/startup/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/startup/paths.h"

/* What a daemon runs with: the configuration, and the set-up that was derived
 * from it. */
struct life {
    struct conf conf;
    struct setup setup; /* with administrators of its own */
};

struct reload {
    const struct args *args;
    const struct conf *first; /* of the start; what it says of sockets stays */
    const struct setup *setup;
    char path[SETUP_PATH_CAP]; /* "": none */
    /* NULL: that of the start. The one before is kept until the next, for
     * the daemon takes the new one up only after it was answered. */
    struct life *now, *before, *next; /* next: not kept yet */
};

static void life_destroy(struct life *l)
{
    if (!l)
        return;
    conf_clear(&l->conf);
    free(l->setup.admins);
    free(l);
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
    life_destroy(r->next);
    life_destroy(r->now);
    life_destroy(r->before);
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
    return r->now ? &r->now->conf : r->first;
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

static int read_life(const struct reload *r, bool reads_file,
                     const struct spec_set *sets, size_t n, struct life *l,
                     struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = reads_file ? read_file(r, sets, n, &l->conf, &text, err)
                        : conf_with(in_force(r), sets, n, &l->conf, &text, err);
    if (rc < 0)
        (void)refuse(buf_str(&text), err);
    buf_clear(&text);
    if (rc == 0 && !policy_find(l->conf.scheduler.policy))
        rc = error_set(err, ERR_CONFIG, "no policy '%s'",
                       l->conf.scheduler.policy);
    if (rc == 0)
        rc = setup_check_notify(&l->conf, err);
    l->setup = *r->setup;
    l->setup.admins = NULL;
    if (rc == 0)
        rc = privileges_admins(&l->conf, &l->setup.admins, &l->setup.n_admins,
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
    struct life *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "reload");
    if (read_life(r, reads_file, sets, n, l, err) < 0) {
        life_destroy(l);
        return -1;
    }
    *ret = (struct ctld_fresh){.policy = policy_find(l->conf.scheduler.policy),
                               .level = l->conf.log.level,
                               .format = l->conf.log.format,
                               .source = &l->conf};
    setup_ctld(&l->conf, &l->setup, &ret->conf);
    conf_changes(in_force(r), &l->conf, note_change, ret);
    conf_changes(r->first, &l->conf, note_waiting, ret);
    life_destroy(r->next);
    r->next = l;
    return 0;
}

void reload_keep(void *arg)
{
    struct reload *r = arg;
    if (!r->next)
        return;
    life_destroy(r->before);
    r->before = r->now;
    r->now = r->next;
    r->next = NULL;
}
