/* rules.h - I7, I9 and I10, over what was written down while daemons lived.
 *
 *   I7   who is not the owner, nor an administrator, is refused, and no event
 *        is his; what an administrator was told is done is in admin.log
 *   I9   the configuration in force is the last one that was read without a
 *        finding: one with a finding never is, neither is it forgotten
 *   I10  the longest turn of each life's loop, without its wait for a core:
 *        none is for ever, and few are above what is aimed at
 *
 * Each returns NULL, or what is wrong, and looks at nothing but its arguments.
 */
#ifndef MGPU_TESTS_CRASH_RULES_H
#define MGPU_TESTS_CRASH_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- I7 --------------------------------------------------------------------
 */
enum { STRANGERS_MAX = 1 << 15 };

struct strange { /* a stranger's request that was answered */
    uint64_t job;
    int status;
};

/* out  ret_at  which one */
static inline const char *rule_strangers(const struct strange *asked, size_t n,
                                         size_t *ret_at)
{
    for (*ret_at = 0; *ret_at < n; ++*ret_at)
        if (asked[*ret_at].status != 403)
            return asked[*ret_at].status < 300
                       ? "a stranger's request was carried out"
                       : "a stranger's request was not refused as such";
    return NULL;
}

/* One event of a job; -1 is the daemon itself. in  own  of the daemon, which
 * serves nobody else */
static inline const char *rule_event_uid(int64_t uid, int64_t owner,
                                         int64_t own)
{
    if (owner != own)
        return "its owner is one whom the daemon does not serve";
    if (uid != -1 && uid != 0 && uid != owner)
        return "an event of it is a stranger's";
    return NULL;
}

enum deed { DEED_PAUSE, DEED_RESUME, DEED_RELOAD, DEED_BACKUP, DEED_N };

/* in  log   admin.log; what follows its last newline was never answered
 *     told  how many of each were answered as done
 *     own   the uid of who did them */
static inline const char *rule_deeds(const char *log, const int told[DEED_N],
                                     int64_t own)
{
    static const char *const words[DEED_N] = {
        "\"do\":\"pause\"", "\"do\":\"resume\"", "\"do\":\"reload\"",
        "\"do\":\"backup\""};
    int n[DEED_N] = {0};
    for (const char *end; (end = strchr(log, '\n')); log = end + 1) {
        const char *uid = strstr(log, "\"uid\":");
        int64_t who = uid && uid < end ? strtoll(uid + 6, NULL, 10) : -2;
        if (who != own && who != 0)
            return "admin.log has a deed of a stranger";
        for (int d = 0; d < DEED_N; d++) {
            const char *at = strstr(log, words[d]);
            n[d] += at && at < end;
        }
    }
    for (int d = 0; d < DEED_N; d++)
        if (n[d] < told[d])
            return "a deed that was answered is not in admin.log";
    return NULL;
}

/* ---- I9 --------------------------------------------------------------------
 */
enum conf_did {
    CONF_GOOD,    /* the file is now this version, which is valid */
    CONF_BAD,     /* the same, and it is not valid */
    CONF_START,   /* a daemon started on the file, and is ready */
    CONF_HUP,     /* it was told by a signal, and reads when it comes to it */
    CONF_TAKEN,   /* it was asked, and says that it has read the file */
    CONF_REFUSED, /* it was asked, and found something wrong */
    CONF_SHOWN    /* it says that this version is in force */
};

enum { CONF_NOTES_MAX = 1 << 14 };

struct conf_note {
    enum conf_did did;
    int version; /* of a file, from 1; of CONF_SHOWN */
};

struct conf_now {  /* as far as the notes were read */
    int file, low; /* the version on disk; the oldest in force */
    int hup_from;  /* it may read this one or a later; 0: none */
    bool is_good;  /* the file */
    bool good[CONF_NOTES_MAX];
};

static inline const char *conf_shown(struct conf_now *c, int v)
{
    if (v < 1 || v > c->file || !c->good[v])
        return "what is in force has not passed the checks";
    if (v < c->low)
        return "what was taken is not in force any more";
    if (v > c->low && (c->hup_from == 0 || v < c->hup_from))
        return "what is in force was not to be read";
    c->low = v;
    return NULL;
}

static inline const char *conf_step(struct conf_now *c,
                                    const struct conf_note *n)
{
    switch (n->did) {
    case CONF_GOOD:
    case CONF_BAD:
        c->file = n->version;
        c->is_good = n->did == CONF_GOOD;
        c->good[n->version] = c->is_good;
        return NULL;
    case CONF_START:
        c->low = c->file;
        c->hup_from = 0;
        return c->is_good ? NULL : "it started with a file that is not valid";
    case CONF_HUP:
        c->hup_from = c->hup_from > 0 ? c->hup_from : c->file;
        return NULL;
    case CONF_TAKEN:
        c->low = c->file;
        return c->is_good ? NULL : "it took a file that is not valid";
    case CONF_REFUSED:
        return c->is_good ? "it refused a valid file" : NULL;
    case CONF_SHOWN:
        return conf_shown(c, n->version);
    }
    return "an unknown note";
}

/* in   notes   [n], their versions below CONF_NOTES_MAX and growing
 * out  ret_at  which one */
static inline const char *rule_conf(const struct conf_note *notes, size_t n,
                                    size_t *ret_at)
{
    static struct conf_now c; /* one thread at a time; too large a frame */
    const char *why = NULL;
    memset(&c, 0, sizeof(c));
    for (*ret_at = 0; *ret_at < n; ++*ret_at)
        if ((why = conf_step(&c, &notes[*ret_at])))
            return why;
    return NULL;
}

/* ---- I10 -------------------------------------------------------------------
 */
enum { LIVES_MAX = 1 << 14 };
/* What is aimed at, and what no machine is slow enough for. One above the first
 * may be the machine's; a quarter of so many lives is not. */
static const double TURN_AIM_S = 0.050, TURN_MAX_S = 10;
enum { LIVES_JUDGED = 100, LIVES_LONG = 4 };

struct life {               /* what a daemon said of its loop, last */
    double own_s, waited_s; /* waited_s 0: this kernel does not tell */
};

struct turns {
    size_t n, n_long; /* lives; those with a turn above TURN_AIM_S */
    size_t n_sure;    /* of these, where the kernel tells */
    double longest_s;
};

static inline const char *rule_turns(const struct life *lives, size_t n,
                                     struct turns *ret)
{
    const char *why = NULL;
    *ret = (struct turns){.n = n};
    for (size_t i = 0; i < n; i++) {
        ret->n_long += lives[i].own_s > TURN_AIM_S;
        ret->n_sure += lives[i].own_s > TURN_AIM_S && lives[i].waited_s > 0;
        if (lives[i].own_s > ret->longest_s)
            ret->longest_s = lives[i].own_s;
        if (lives[i].own_s > TURN_MAX_S && lives[i].waited_s > 0)
            why = "the loop stood still for more than 10 s of its own";
    }
    if (n >= LIVES_JUDGED && ret->n_sure * LIVES_LONG > n)
        why = "the loop stood still for more than 50 ms of its own too often";
    return why;
}

#endif
