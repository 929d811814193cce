/* watch_past.c - see watch_past.h.
 *
 * Events are durable and numbered by the store. Not every change of a job is
 * one: its iteration and the reason why it waits change without. So a stream
 * that is to go on without a gap counts all changes, from 1 at the start of the
 * daemon, and its cursor is that count behind the name of the daemon's life. */
#include "scheduler/ctld/job_list/watch_past.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void watch_past_clear(struct watch_past *p)
{
    job_seqs_clear(&p->events);
    job_seqs_clear(&p->changes);
}

void watch_past_changed(struct watch_past *p, uint64_t job)
{
    job_seqs_saw(&p->changes, job, p->changes.last + 1);
}

void watch_past_saw_event(struct watch_past *p, uint64_t job, uint64_t seq)
{
    job_seqs_saw(&p->events, job, seq);
}

void watch_past_leaves(struct watch_past *p, uint64_t job)
{
    uint64_t change = job_seqs_of(&p->changes, job);
    p->left = change > p->left ? change : p->left;
}

uint64_t watch_past_seq_of(const struct watch_past *p, uint64_t job)
{
    uint64_t seq = job_seqs_of(&p->events, job);
    return seq > 0 ? seq : p->first_seq; /* at the latest */
}

int64_t watch_past_now(const struct watch_past *p)
{
    return (int64_t)p->changes.last;
}

void watch_past_cursor(const struct watch_past *p, int64_t change,
                       char ret[WATCH_CURSOR_CAP])
{
    (void)snprintf(ret, WATCH_CURSOR_CAP, "%" PRIx64 ".%" PRId64, p->life,
                   change);
}

/* "HEX.NUMBER", and nothing else. */
static bool parse(const char *text, uint64_t *ret_life, int64_t *ret_change)
{
    size_t n = strspn(text, "0123456789abcdef");
    const char *number = text + n + 1;
    if (n == 0 || n > 16 || text[n] != '.' || number[0] == '\0' ||
        strspn(number, "0123456789") != strlen(number))
        return false;
    errno = 0;
    *ret_life = strtoull(text, NULL, 16);
    *ret_change = strtoll(number, NULL, 10);
    return errno == 0;
}

int watch_past_known(const struct watch_past *p, int64_t seq,
                     const char *cursor, struct watch_known *ret,
                     struct error *err)
{
    uint64_t life,
        last = p->events.last > p->first_seq ? p->events.last : p->first_seq;
    *ret = (struct watch_known){.seq = -1, .change = -1};
    if (!cursor) {
        ret->seq = seq >= 0 && (uint64_t)seq > last ? -1 : seq;
        return 0;
    }
    if (seq >= 0)
        return error_set(err, ERR_INVAL,
                         "after= and cursor= exclude each other");
    if (strcmp(cursor, "new") == 0)
        return 0;
    if (!parse(cursor, &life, &ret->change))
        return error_set(err, ERR_INVAL,
                         "cursor=%.40s: give the cursor of a line that this "
                         "stream has sent, or new",
                         cursor);
    if (life != p->life || ret->change > watch_past_now(p) ||
        (uint64_t)ret->change < p->left || p->changes.is_lost)
        ret->change = -1;
    return 0;
}

bool watch_past_knows(const struct watch_past *p, struct watch_known known,
                      uint64_t job)
{
    if (known.change >= 0)
        return !p->changes.is_lost &&
               job_seqs_of(&p->changes, job) <= (uint64_t)known.change;
    uint64_t seq = watch_past_seq_of(p, job);
    return known.seq >= 0 && !p->events.is_lost && seq > 0 &&
           seq <= (uint64_t)known.seq;
}
