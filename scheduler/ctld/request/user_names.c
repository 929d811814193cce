/* user_names.c - the names of callers, by their uid.
 *
 * The cache of jobs/base/name_lookup.h asks for them on a thread of its own. If
 * a lookup takes longer than WAIT_S, the request goes on with the last known
 * name, or with the digits of the uid, as for a user without a name.
 */
#include "scheduler/ctld/request/user_names.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"

static const struct names_conf names_conf = {
    .cached = 256, .keep_s = 300, .keep_unknown_s = 1};
static const double WAIT_S = 1; /* less than any tool waits for its answer */

/* A request that waits for its user's name. */
struct wait {
    struct wait *next;
    struct http_exchange *x;
    uid_t uid;
};

struct user_names {
    struct names *names;
    struct loop_source *answers, *timer; /* of who waits */
    struct wait *waits;                  /* owned */
};

/* Those whose name is there, or takes too long. Each is served again, and may
 * come to wait anew: the list is nobody's meanwhile. */
static void serve_waits(struct user_names *u)
{
    char ignored[NAME_USER_CAP];
    struct wait *all = u->waits, *ready = NULL;
    double longest_s = 0;
    u->waits = NULL;
    while (all) {
        struct wait *w = all;
        double asked_s = names_user(u->names, w->uid, ignored);
        struct wait **to = asked_s < WAIT_S ? &u->waits : &ready;
        if (asked_s < WAIT_S)
            longest_s = fmax(longest_s, asked_s);
        all = w->next;
        w->next = *to;
        *to = w;
    }
    if (u->waits)
        loop_timer_set(u->timer, WAIT_S - longest_s);
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

static void on_answers(void *arg)
{
    struct user_names *u = arg;
    names_read_fd(u->names);
    serve_waits(u);
}

static bool may_wait(struct user_names *u, struct http_exchange *x, uid_t uid)
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
                          char ret[NAME_USER_CAP])
{
    struct user_names *u = c->user_names;
    uid_t uid = (uid_t)http_uid(x);
    double asked_s = names_user(u->names, uid, ret);
    return asked_s >= WAIT_S || !may_wait(u, x, uid);
}

int user_names_init(struct ctld *c, struct error *err)
{
    struct user_names *u = c->user_names = calloc(1, sizeof(*u));
    if (!u)
        return error_set(err, ERR_NOMEM, "users");
    if (names_create(&names_conf, &u->names, err) < 0 ||
        loop_fd_create(c->loop, names_fd(u->names), on_answers, u, &u->answers,
                       err) < 0 ||
        loop_timer_create(c->loop, on_timer, u, &u->timer, err) < 0)
        return -1;
    loop_source_name(u->answers, "names");
    loop_source_name(u->timer, "names");
    return 0;
}

void user_names_clear(struct ctld *c)
{
    struct user_names *u = c->user_names;
    if (!u)
        return;
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (u->waits) {
        struct wait *w = u->waits;
        u->waits = w->next;
        http_reply_err(w->x, &err);
        free(w);
    }
    loop_source_destroy(u->answers);
    loop_source_destroy(u->timer);
    names_release(u->names);
    c->user_names = NULL;
    free(u);
}
