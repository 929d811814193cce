/* wait_times.h - how long a device has nothing to do but to wait for other
 * ranks: by the clock, or between two marks of the device (kernels/device.h).
 *
 * The host waits for a collective that was begun a while ago, often while the
 * device still has work. On a device with marks only the time counts from the
 * end of the work before the wait to the begin of what is given to it behind.
 *
 * A pair of marks is read when it is used again, WAIT_PAIRS waits later. One of
 * these must have waited for a collective that was started behind the pair, so
 * that both marks have passed.
 */
#ifndef MGPU_WORKER_COMM_WAIT_TIMES_H
#define MGPU_WORKER_COMM_WAIT_TIMES_H

#include <stdbool.h>

#include "kernels/device.h"

enum { WAIT_PAIRS = 5, WAIT_KINDS = 2 };

struct wait_times {
    struct device *dev;   /* borrowed */
    int32_t mark;         /* the first of 2 * WAIT_PAIRS marks */
    double s[WAIT_KINDS]; /* of those that have been read */
    int32_t kind;         /* of the waits from now on; the owner's */
    int32_t depth;        /* of begin() */
    double since_s;
    int32_t next;
    struct {
        bool is_open;
        int32_t kind;
    } pair[WAIT_PAIRS];
};

void wait_times_init(struct wait_times *ret, struct device *dev, int32_t mark);
/* Around a wait; of those within each other the outermost counts.
 * in   rc  of what was between the two: end() returns -1 if it is */
int wait_times_begin(struct wait_times *w, struct error *err) MUST_CHECK;
int wait_times_end(struct wait_times *w, int rc, struct error *err) MUST_CHECK;
/* Reads the marks that are left, when the device has passed them. */
void wait_times_read(struct wait_times *w);

#endif
