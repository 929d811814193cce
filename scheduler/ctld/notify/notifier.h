/* notifier.h - the thread that runs notify.program.
 *
 * The program may be slow, hang or fail, so all of it is bounded: the
 * queue, what is under way, each try and the number of tries. A notice that
 * does not fit is dropped, counted and logged. Nobody ever waits for it, and
 * it ends at once, and leaves what is under way to the next daemon.
 *
 * A notice is told at least once. Which were done is kept in a file: the
 * number of the last event of which, and of all before it, everything has been
 * told or given up. A daemon that is killed between telling and writing
 * that down tells it again. At most once would need no file, but it would lose
 * what a daemon has not told yet when it dies, and of these "it failed" is the
 * one that somebody waits for. Each has an id by which a receiver knows it
 * again.
 */
#ifndef MGPU_SCHEDULER_CTLD_NOTIFY_NOTIFIER_H
#define MGPU_SCHEDULER_CTLD_NOTIFY_NOTIFIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct notice {
    uint64_t seq, job; /* of the event */
    int64_t uid;       /* whose job it is */
    const char *on;    /* static: "fail" */
    char **argv;       /* owned, ends with NULL: the program */
    char *text;        /* owned: the document */
};
void notifier_notice_destroy(struct notice *n); /* NULL is fine */

struct notices_conf {
    const char *path; /* of the file; copied */
    double limit_s;   /* of one try */
    double pause_s;   /* before the second; before the third four times that */
    size_t max_waiting; /* or under way; of one user a quarter */
};
enum { NOTICES_TRIES = 3 };

struct notices_counts {
    uint64_t sent, failed, dropped;
    uint64_t waiting; /* or under way */
};

struct notices;

int notifier_create(const struct notices_conf *conf, struct notices **ret,
                    struct error *err) MUST_CHECK;
void notifier_destroy(struct notices *n); /* NULL is fine */

/* Takes the notices list[n] of one event, whose seq is above all before. */
void notifier_post(struct notices *n, struct notice **list, size_t len);
/* Any thread. */
struct notices_counts notifier_count(struct notices *n);

/* What the file says; *ret_is_there is false when there is none, or it says
 * nothing. err ERR_IO */
int notifier_read(const char *path, uint64_t *ret_seq, bool *ret_is_there,
                  struct error *err) MUST_CHECK;
int notifier_write(const char *path, uint64_t seq,
                   struct error *err) MUST_CHECK;

#endif
