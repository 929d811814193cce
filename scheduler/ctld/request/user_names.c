/* user_names.c - cached lookup of user names by uid.
 *
 * getpwuid_r() may read a file or ask a service that is far away or blocks
 * (nsswitch.conf(5)). So a thread of its own calls it, and the names are kept
 * for a while. If a lookup takes longer than WAIT_S, the request goes on with
 * the last known name, or with the digits of the uid, as for a user without a
 * name.
 */
#include "scheduler/ctld/request/user_names.h"

#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"

enum {
    CACHED = 256,
    QUEUED = 256,
    PASSWD_BYTES = 65536 /* of one entry; what glibc's own callers go up to */
};
static const double KEEP_S = 300, KEEP_UNKNOWN_S = 1;
static const double WAIT_S = 1, /* less than any tool waits for its answer */
    END_S = 1;                  /* and the daemon, when it is to stop */

struct name {
    int64_t uid;
    double at_s;
    bool is_name;             /* and not digits */
    char text[USER_NAME_CAP]; /* "": free */
};

/* A request that waits for its user's name. */
struct wait {
    struct wait *next;
    struct http_exchange *x;
    int64_t uid;
};

struct user_names {
    struct ctld *c;
    struct thread *thread;
    struct loop_source *timer; /* of who waits */
    struct lookup *pending;    /* one of a uid at most */
    struct wait *waits;        /* owned */
    struct name names[CACHED];
};

struct lookup {
    struct task task;
    struct lookup *next;
    struct user_names *u;
    int64_t uid;
    double since_s;
    bool found;
    char name[USER_NAME_CAP];
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
static void keep(struct user_names *u, const struct lookup *l, double now_s)
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
    to->is_name = l->found;
    to->at_s = l->found ? now_s : now_s - KEEP_S + KEEP_UNKNOWN_S;
    memcpy(to->text, l->name, sizeof(to->text));
}

static double now_of(const struct user_names *u)
{
    return u->c->parts.clock->now_s(u->c->parts.clock);
}

static struct lookup *pending_of(const struct user_names *u, int64_t uid)
{
    struct lookup *l = u->pending;
    while (l && l->uid != uid)
        l = l->next;
    return l;
}

static bool takes_long(const struct user_names *u, const struct lookup *l)
{
    return now_of(u) - l->since_s >= WAIT_S;
}

/* Those whose name is there, or takes too long. Each is served again, and may
 * come to wait anew: the list is nobody's meanwhile. */
static void serve_waits(struct user_names *u)
{
    struct wait *all = u->waits, *ready = NULL;
    double due_s = INFINITY;
    u->waits = NULL;
    while (all) {
        struct wait *w = all;
        const struct lookup *l = pending_of(u, w->uid);
        bool waits_on = l && !takes_long(u, l);
        struct wait **to = waits_on ? &u->waits : &ready;
        if (waits_on)
            due_s = fmin(due_s, l->since_s + WAIT_S);
        all = w->next;
        w->next = *to;
        *to = w;
    }
    if (u->waits)
        loop_timer_set(u->timer, due_s - now_of(u));
    while (ready) {
        struct wait *w = ready;
        ready = w->next;
        http_again(w->x);
        free(w);
    }
}

static void on_timer(void *arg)
{
    serve_waits(arg);
}

static void lookup_done(struct task *t)
{
    struct lookup *l = (struct lookup *)t;
    struct user_names *u = l->u;
    struct lookup **p = &u->pending;
    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    keep(u, l, now_of(u));
    free(l);
    serve_waits(u);
}

/* What is under way for this uid; NULL: it cannot be asked for now. */
static const struct lookup *look_up(struct user_names *u, int64_t uid)
{
    struct lookup *l = pending_of(u, uid);
    if (l)
        return l;
    l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    *l = (struct lookup){.task = {.run = lookup_run, .done = lookup_done},
                         .next = u->pending,
                         .u = u,
                         .uid = uid,
                         .since_s = now_of(u)};
    if (work_queue_post(u->thread, &l->task, NULL) < 0) {
        free(l);
        return NULL;
    }
    u->pending = l;
    return l;
}

static bool may_wait(struct user_names *u, struct http_exchange *x, int64_t uid)
{
    struct wait *w = calloc(1, sizeof(*w));
    if (!w)
        return false;
    *w = (struct wait){.next = u->waits, .x = x, .uid = uid};
    u->waits = w;
    if (!loop_timer_is_set(u->timer))
        loop_timer_set(u->timer, WAIT_S);
    return true;
}

bool user_names_of_caller(struct ctld *c, struct http_exchange *x,
                          char ret[USER_NAME_CAP])
{
    struct user_names *u = c->user_names;
    int64_t uid = http_uid(x);
    const struct name *known = NULL;
    for (const struct name *n = u->names; n < u->names + CACHED; n++)
        if (n->text[0] && n->uid == uid)
            known = n;
    if (!known || now_of(u) - known->at_s >= KEEP_S) {
        const struct lookup *l = look_up(u, uid);
        if (l && !takes_long(u, l) && may_wait(u, x, uid))
            return false;
    }
    if (known && (known->is_name || now_of(u) - known->at_s < KEEP_S))
        memcpy(ret, known->text, USER_NAME_CAP);
    else
        (void)snprintf(ret, USER_NAME_CAP, "%lld", (long long)uid);
    return true;
}

int user_names_init(struct ctld *c, struct error *err)
{
    struct user_names *u = c->user_names = calloc(1, sizeof(*u));
    if (!u)
        return error_set(err, ERR_NOMEM, "users");
    u->c = c;
    if (loop_timer_create(c->loop, on_timer, u, &u->timer, err) < 0)
        return -1;
    loop_source_name(u->timer, "names");
    return work_queue_create(c->loop, "names", QUEUED, &u->thread, err);
}

/* A service that does not answer keeps its thread, and must not keep us: what
 * that one uses stays where it is. */
void user_names_clear(struct ctld *c)
{
    struct user_names *u = c->user_names;
    if (!u)
        return;
    bool has_ended = work_queue_destroy_within(u->thread, END_S);
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (u->waits) {
        struct wait *w = u->waits;
        u->waits = w->next;
        http_reply_err(w->x, &err);
        free(w);
    }
    loop_source_destroy(u->timer);
    c->user_names = NULL;
    if (has_ended)
        free(u);
}
