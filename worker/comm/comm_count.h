/* comm_count.h - a communicator that counts the calls to another one.
 *
 * Each collective counts once, with the seconds inside the call that starts
 * it and inside the wait for it: what this rank's thread gave away, not how
 * long the data travelled while it computed.
 */
#ifndef MGPU_WORKER_COMM_COMM_COUNT_H
#define MGPU_WORKER_COMM_COMM_COUNT_H

#include "worker/comm/comm.h"

enum comm_work {
    COMM_ALL_REDUCE,
    COMM_ALL_GATHER,
    COMM_REDUCE_SCATTER,
    COMM_BROADCAST,
    COMM_REDUCE,
    COMM_SCATTER,
    COMM_BARRIER,
    COMM_WORK_N
};
const char *comm_work_name(enum comm_work work); /* "all_reduce" */

struct comm_count {
    int64_t calls, bytes; /* bytes: of this rank's operand */
    double total_s;
};

/* Forwards to `inner`, which is borrowed, or owned: destroyed with it.
 * err  ERR_NOMEM inner stays the caller's */
int comm_count_create(struct comm *inner, bool owned, struct comm **ret,
                      struct error *err) MUST_CHECK;
/* From now on adds to to[COMM_WORK_N], which the caller keeps; NULL ends it.
 * comm_count_create() made `c`. */
void comm_count_to(struct comm *c, struct comm_count *to);

#endif
