/* name_lookup.c - a cache that one thread fills; see name_lookup.h. */
#include "jobs/base/name_lookup.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"

enum {
    HOST_CAP = 256,
    PASSWD_BYTES = 65536 /* of one entry; what glibc's own callers go up to */
};

struct entry {
    bool is_host, is_asked; /* is_asked: queued for the thread */
    uid_t uid;
    double asked_s, again_s; /* when it was queued; when to look it up again */
    char host[HOST_CAP];
    char value[NAME_USER_CAP]; /* "" unknown */
};

struct names {
    struct names_conf conf;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_over;
    int fd;                   /* eventfd */
    struct buf entries;       /* struct entry[], which only grows */
    char space[PASSWD_BYTES]; /* the thread's */
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static struct entry *entries(const struct names *n, size_t *ret_n)
{
    *ret_n = n->entries.len / sizeof(struct entry);
    return (struct entry *)(void *)n->entries.data;
}

/* ---- the thread -----------------------------------------------------------
 */

static void ask_host(struct entry *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    if (getaddrinfo(e->host, NULL, &hints, &all) != 0)
        return;
    if (getnameinfo(all->ai_addr, all->ai_addrlen, e->value, NAME_ADDRESS_CAP,
                    NULL, 0, NI_NUMERICHOST) != 0)
        e->value[0] = '\0';
    freeaddrinfo(all);
}

static void ask_user(struct names *n, struct entry *e)
{
    struct passwd pw;
    struct passwd *found = NULL;
    if (getpwuid_r(e->uid, &pw, n->space, sizeof(n->space), &found) == 0 &&
        found && strlen(pw.pw_name) < sizeof(e->value))
        memcpy(e->value, pw.pw_name, strlen(pw.pw_name) + 1);
}

static void free_names(struct names *n)
{
    (void)pthread_cond_destroy(&n->wake);
    (void)pthread_mutex_destroy(&n->lock);
    if (n->fd >= 0)
        (void)close(n->fd);
    buf_clear(&n->entries);
    free(n);
}

/* The first entry after `last`, round and round, that is asked for: a name that
 * is asked for again and again delays no other. Returns n if there is none. */
static size_t next_asked(const struct entry *all, size_t n, size_t last)
{
    for (size_t k = 1; k <= n; k++)
        if (all[(last + k) % n].is_asked)
            return (last + k) % n;
    return n;
}

static void *ask(void *arg)
{
    struct names *n = arg;
    const uint64_t one = 1;
    size_t last = 0;
    (void)pthread_setname_np(pthread_self(), "names");
    (void)pthread_mutex_lock(&n->lock);
    while (!n->is_over) {
        size_t count;
        struct entry *all = entries(n, &count);
        size_t i = next_asked(all, count, last);
        if (i == count) {
            (void)pthread_cond_wait(&n->wake, &n->lock);
            continue;
        }
        struct entry e = all[i];
        (void)pthread_mutex_unlock(&n->lock);
        e.value[0] = '\0';
        if (e.is_host)
            ask_host(&e);
        else
            ask_user(n, &e);
        e.is_asked = false;
        e.again_s =
            now_s() + (e.value[0] ? n->conf.keep_s : n->conf.keep_unknown_s);
        (void)pthread_mutex_lock(&n->lock);
        all = entries(n, &count); /* an entry that is asked stays */
        all[i] = e;
        last = i;
        while (write(n->fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ; /* full means that the reader is about to wake */
    }
    (void)pthread_mutex_unlock(&n->lock);
    free_names(n);
    return NULL;
}

int names_create(const struct names_conf *conf, struct names **ret,
                 struct error *err)
{
    sigset_t all, old;
    pthread_t thread;
    struct names *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return error_set(err, ERR_NOMEM, "names");
    n->conf = *conf;
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_cond_init(&n->wake, NULL);
    n->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->fd < 0) {
        (void)error_sys(err, errno, "make a counter of events");
        free_names(n);
        return -1;
    }
    (void)sigfillset(&all); /* signals are the caller's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, NULL, ask, n);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        free_names(n);
        return error_sys(err, rc, "start a thread");
    }
    (void)pthread_detach(thread);
    *ret = n;
    return 0;
}

void names_release(struct names *n)
{
    if (n == NULL)
        return;
    (void)pthread_mutex_lock(&n->lock);
    n->is_over = true;
    (void)pthread_cond_signal(&n->wake);
    (void)pthread_mutex_unlock(&n->lock);
}

/* ---- callers --------------------------------------------------------------
 */

int names_fd(const struct names *n)
{
    return n->fd;
}

void names_read_fd(struct names *n)
{
    uint64_t count;
    ssize_t ignored = read(n->fd, &count, sizeof(count));
    (void)ignored;
}

static bool is_same(const struct entry *a, const struct entry *b)
{
    return a->is_host == b->is_host && a->uid == b->uid &&
           strcmp(a->host, b->host) == 0;
}

/* The entry; a new one, in the place of the oldest if there are enough. NULL:
 * all are being looked up, or memory is short. */
static struct entry *entry_of(struct names *n, const struct entry *want)
{
    size_t count;
    struct entry *all = entries(n, &count), *oldest = NULL;
    for (size_t i = 0; i < count; i++) {
        struct entry *e = &all[i];
        if (is_same(e, want))
            return e;
        if (!e->is_asked && (oldest == NULL || e->again_s < oldest->again_s))
            oldest = e;
    }
    if (count < n->conf.cached) {
        if (buf_add(&n->entries, want, sizeof(*want), NULL) < 0)
            return NULL;
        all = entries(n, &count);
        return &all[count - 1];
    }
    if (oldest != NULL)
        *oldest = *want;
    return oldest;
}

static double look_up(struct names *n, const struct entry *want, char *ret,
                      size_t cap)
{
    double asked_s = INFINITY, now = now_s();
    (void)pthread_mutex_lock(&n->lock);
    struct entry *e = entry_of(n, want);
    if (e != NULL && !e->is_asked && e->again_s <= now) {
        e->is_asked = true;
        e->asked_s = now;
        (void)pthread_cond_signal(&n->wake);
    }
    if (e != NULL && e->is_asked)
        asked_s = now - e->asked_s;
    (void)snprintf(ret, cap, "%s", e != NULL ? e->value : "");
    (void)pthread_mutex_unlock(&n->lock);
    return asked_s;
}

double names_user(struct names *n, uid_t uid, char ret[NAME_USER_CAP])
{
    const struct entry want = {.uid = uid};
    double asked_s = look_up(n, &want, ret, NAME_USER_CAP);
    if (ret[0] == '\0')
        (void)snprintf(ret, NAME_USER_CAP, "%lu", (unsigned long)uid);
    return asked_s;
}

void names_address(struct names *n, const char *host,
                   char ret[NAME_ADDRESS_CAP])
{
    struct entry want = {.is_host = true};
    ret[0] = '\0';
    if (strlen(host) >= HOST_CAP)
        return;
    memcpy(want.host, host, strlen(host) + 1);
    (void)look_up(n, &want, ret, NAME_ADDRESS_CAP);
}
