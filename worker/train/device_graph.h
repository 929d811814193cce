/* device_graph.h - the device calls of a part of an iteration: run directly the
 * first time, captured the second time, and then launched as a graph.
 *
 * The first run lets the device allocate and choose what it has to, which a
 * capture cannot. Where something on the host has to happen between two
 * calls (gradients are handed to the other ranks), the capture is cut there,
 * into pieces. Nothing runs before all of them are there: then the caller
 * launches them, as it does from then on. So a capture that fails has changed
 * nothing, and the caller makes the calls again.
 *
 * A device without capture, or on which one failed, runs the calls each time.
 */
#ifndef MGPU_WORKER_TRAIN_DEVICE_GRAPH_H
#define MGPU_WORKER_TRAIN_DEVICE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"

enum { REPLAY_PIECES = 64 };

enum replay_what {
    REPLAY_RUN,     /* call the device */
    REPLAY_CAPTURE, /* the same between device_graph_begin() and
                       device_graph_end() */
    REPLAY_LAUNCH   /* device_graph_piece(), for all pieces */
};

struct replay {
    struct device *dev;                  /* borrowed; NULL: always REPLAY_RUN */
    struct graph *pieces[REPLAY_PIECES]; /* owned */
    int64_t notes[REPLAY_PIECES];        /* of the caller, one for each cut */
    int32_t n;
    bool has_run, is_kept, is_open; /* is_open: begun and not ended */
};

/* $MGPU_CUDA_GRAPHS=0 keeps every device from capturing. */
void device_graph_init(struct replay *r, struct device *dev);
void device_graph_clear(struct replay *r); /* zeroed is fine */

/* What to do this time. REPLAY_CAPTURE follows REPLAY_RUN. */
enum replay_what device_graph_next(struct replay *r);

int device_graph_begin(struct replay *r, struct error *err) MUST_CHECK;
/* Ends a piece, of the calls since the last begin; another begin follows. */
bool device_graph_can_cut(const struct replay *r); /* there is a piece left */
int device_graph_cut(struct replay *r, int64_t note,
                     struct error *err) MUST_CHECK;
/* Ends the capture, also after a begin that failed: either all pieces are
 * there, or all are given up and REPLAY_RUN is the answer from now on.
 * in  failed  a call in between, or the begin, has failed, with err: returns
 *             -1 */
int device_graph_end(struct replay *r, bool failed,
                     struct error *err) MUST_CHECK;

int device_graph_piece(struct replay *r, int32_t i,
                       struct error *err) MUST_CHECK;

#endif
