/* users.c - uids have names.
 *
 * Where a name comes from is the machine's affair: a file, or a service far
 * away that takes its time (nsswitch.conf(5)). So a name is asked for on a
 * thread that does nothing else, and kept for a while. A user without a name
 * has the digits of the uid.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/private.h"

enum {
    CACHED = 256,
    QUEUED = 256,
    PASSWD_BYTES = 65536 /* of one entry; what glibc's own callers go up to */
};
static const double KEEP_S = 300, KEEP_UNKNOWN_S = 1;

struct name {
    int64_t uid;
    double at_s;
    char text[CTLD_USER_CAP]; /* "": free */
};

struct users {
    struct thread *thread;
    struct name names[CACHED];
};

struct lookup {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    int64_t uid;
    bool found;
    char name[CTLD_USER_CAP];
};

static void lookup_run(struct task *t)
{
    struct lookup *l = (struct lookup *)t;
    struct passwd pw, *found = NULL;
    char *space = malloc(PASSWD_BYTES);
    if (space &&
        getpwuid_r((uid_t)l->uid, &pw, space, PASSWD_BYTES, &found) == 0 &&
        found && strlen(found->pw_name) < sizeof(l->name)) {
        l->found = true;
        (void)snprintf(l->name, sizeof(l->name), "%s", found->pw_name);
    } else {
        (void)snprintf(l->name, sizeof(l->name), "%lld", (long long)l->uid);
    }
    free(space);
}

/* In the place of the one that is oldest. */
static void keep(struct users *u, const struct lookup *l, double now_s)
{
    struct name *to = &u->names[0];
    for (struct name *n = u->names; n < u->names + CACHED; n++) {
        if (!n->text[0] || n->uid == l->uid) {
            to = n;
            break;
        }
        if (n->at_s < to->at_s)
            to = n;
    }
    to->uid = l->uid;
    to->at_s = l->found ? now_s : now_s - KEEP_S + KEEP_UNKNOWN_S;
    memcpy(to->text, l->name, sizeof(to->text));
}

static void lookup_done(struct task *t)
{
    struct lookup *l = (struct lookup *)t;
    struct ctld *c = l->c;
    keep(c->users, l, c->parts.clock->now_s(c->parts.clock));
    http_again(l->x);
    free(l);
}

bool ctld_caller_name(struct ctld *c, struct http_exchange *x,
                      char ret[CTLD_USER_CAP])
{
    double now_s = c->parts.clock->now_s(c->parts.clock);
    int64_t uid = http_uid(x);
    struct error err = ERROR_INIT;
    for (const struct name *n = c->users->names; n < c->users->names + CACHED;
         n++) {
        if (n->text[0] && n->uid == uid && now_s - n->at_s < KEEP_S) {
            memcpy(ret, n->text, CTLD_USER_CAP);
            return true;
        }
    }
    struct lookup *l = calloc(1, sizeof(*l));
    int rc = l ? 0 : error_set(&err, ERR_NOMEM, "user");
    if (l) {
        *l = (struct lookup){.task = {.run = lookup_run, .done = lookup_done},
                             .c = c,
                             .x = x,
                             .uid = uid};
        rc = thread_post(c->users->thread, &l->task, &err);
    }
    if (rc < 0) {
        free(l);
        http_reply_err(x, &err);
    }
    return false;
}

int ctld_users_init(struct ctld *c, struct error *err)
{
    c->users = calloc(1, sizeof(*c->users));
    if (!c->users)
        return error_set(err, ERR_NOMEM, "users");
    return thread_create(c->loop, "names", QUEUED, &c->users->thread, err);
}

void ctld_users_clear(struct ctld *c)
{
    if (c->users)
        thread_destroy(c->users->thread);
    free(c->users);
    c->users = NULL;
}
