/* reload.c - see reload.h. */
#include "scheduler/ctld/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/paths.h"

/* What a daemon runs with: the configuration, and what came of it. */
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
    struct life *now, *before;
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
    life_destroy(r->now);
    life_destroy(r->before);
    free(r);
}

/* The first finding, which names its line; `text` may have more. */
static int refuse(const char *text, struct error *err)
{
    char first[200];
    size_t len = strcspn(text, "\n");
    if (len == 0)
        return -1; /* err is the file's own */
    (void)snprintf(first, sizeof(first), "%.*s", (int)len, text);
    return error_set(err, ERR_CONFIG, "%s", first);
}

static int read_life(const struct reload *r, struct life *l, struct error *err)
{
    struct buf text = BUF_INIT;
    if (r->setup->kind == DAEMON_SYSTEM && system_file(r->path, err) < 0)
        return -1;
    int rc = conf_load(r->path, &l->conf, &text, err);
    if (rc < 0)
        (void)refuse(buf_str(&text), err);
    buf_clear(&text);
    if (rc == 0 && !policy_find(l->conf.scheduler.policy))
        rc = error_set(err, ERR_CONFIG, "no policy '%s'",
                       l->conf.scheduler.policy);
    l->setup = *r->setup;
    l->setup.admins = NULL;
    if (rc == 0)
        rc = system_admins(&l->conf, &l->setup.admins, &l->setup.n_admins, err);
    return rc;
}

static void note_change(void *arg, const char *path, bool is_live)
{
    struct ctld_fresh *f = arg;
    char *list = is_live ? f->changed : f->waiting;
    size_t len = strlen(list);
    (void)snprintf(list + len, sizeof(f->changed) - len, "%s%s",
                   len > 0 ? ", " : "", path);
}

int reload_run(void *arg, struct ctld_fresh *ret, struct error *err)
{
    struct reload *r = arg;
    if (r->path[0] == '\0')
        return error_set(err, ERR_CONFIG,
                         "the daemon was started without --config");
    struct life *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "reload");
    if (read_life(r, l, err) < 0) {
        life_destroy(l);
        return -1;
    }
    *ret = (struct ctld_fresh){.policy = policy_find(l->conf.scheduler.policy),
                               .level = l->conf.log.level};
    setup_ctld(&l->conf, &l->setup, &ret->conf);
    conf_changes(r->now ? &r->now->conf : r->first, &l->conf, note_change, ret);
    life_destroy(r->before);
    r->before = r->now;
    r->now = l;
    return 0;
}
