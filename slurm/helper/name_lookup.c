/* name_lookup.c - a cache that one thread fills; see name_lookup.h. */
#include "slurm/helper/name_lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"

/* Interval to refresh an entry, and to retry a failed one. */
static const double AGAIN_S = 600, FAILED_AGAIN_S = 30;
enum { HOST_CAP = 256, ENTRIES_MAX = 100000 };

struct entry {
    bool is_host, is_asked; /* is_asked: queued for the thread */
    uid_t uid;
    char host[HOST_CAP];
    char value[NAME_USER_CAP]; /* "" unknown */
    double again_s;
};

struct names {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct buf entries; /* struct entry[] */
};

static struct entry *entries(const struct names *n, size_t *ret_n)
{
    *ret_n = n->entries.len / sizeof(struct entry);
    return (struct entry *)(void *)n->entries.data;
}

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

static void ask_user(struct entry *e)
{
    struct passwd pw;
    struct passwd *found = NULL;
    char room[16384];
    if (getpwuid_r(e->uid, &pw, room, sizeof(room), &found) == 0 && found &&
        strlen(pw.pw_name) < sizeof(e->value))
        memcpy(e->value, pw.pw_name, strlen(pw.pw_name) + 1);
}

static void *ask(void *arg) __attribute__((noreturn));

static void *ask(void *arg)
{
    struct names *n = arg;
    (void)pthread_mutex_lock(&n->lock);
    for (;;) {
        size_t count;
        size_t i = 0;
        struct entry *all = entries(n, &count);
        while (i < count && !all[i].is_asked)
            i++;
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
            ask_user(&e);
        e.is_asked = false;
        e.again_s = clock_real.now_s(&clock_real) +
                    (e.value[0] ? AGAIN_S : FAILED_AGAIN_S);
        (void)pthread_mutex_lock(&n->lock);
        all = entries(n, &count); /* the array only grows */
        all[i] = e;
    }
}

int names_create(struct names **ret, struct error *err)
{
    pthread_t t;
    struct names *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return error_set(err, ERR_NOMEM, "names");
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_cond_init(&n->wake, NULL);
    int rc = pthread_create(&t, NULL, ask, n);
    if (rc != 0) {
        free(n);
        return error_sys(err, rc, "start a thread");
    }
    (void)pthread_detach(t);
    *ret = n;
    return 0;
}

static void look_up(struct names *n, const struct entry *want, char *ret,
                    size_t cap)
{
    size_t count;
    size_t i = 0;
    (void)pthread_mutex_lock(&n->lock);
    struct entry *all = entries(n, &count);
    while (i < count &&
           (all[i].is_host != want->is_host || all[i].uid != want->uid ||
            strcmp(all[i].host, want->host) != 0))
        i++;
    if (i == count && count < ENTRIES_MAX &&
        buf_add(&n->entries, want, sizeof(*want), NULL) == 0)
        all = entries(n, &count);
    if (i < count) {
        if (!all[i].is_asked &&
            all[i].again_s <= clock_real.now_s(&clock_real)) {
            all[i].is_asked = true;
            (void)pthread_cond_signal(&n->wake);
        }
        (void)snprintf(ret, cap, "%s", all[i].value);
    }
    (void)pthread_mutex_unlock(&n->lock);
}

void names_user(struct names *n, uid_t uid, char ret[NAME_USER_CAP])
{
    struct entry want = {.uid = uid};
    ret[0] = '\0';
    look_up(n, &want, ret, NAME_USER_CAP);
    if (ret[0] == '\0')
        (void)snprintf(ret, NAME_USER_CAP, "%lu", (unsigned long)uid);
}

void names_address(struct names *n, const char *host,
                   char ret[NAME_ADDRESS_CAP])
{
    struct entry want = {.is_host = true};
    ret[0] = '\0';
    if (strlen(host) >= HOST_CAP)
        return;
    memcpy(want.host, host, strlen(host) + 1);
    look_up(n, &want, ret, NAME_ADDRESS_CAP);
}
