/* goodput_rigid.h - jobs of one size beside those with a range. */
#ifndef MGPU_SCHEDULER_POLICY_GOODPUT_RIGID_H
#define MGPU_SCHEDULER_POLICY_GOODPUT_RIGID_H

#include "scheduler/policy/goodput_plan.h"

/* A queued job of one size: whether it competes with those that have a range,
 * and what its size is worth then. */
void gp_rigid_compete(const struct gp *g, struct gp_job *io);
/* Whether a job that takes one_s on one GPU waits for too long. in speed as for
 * gp_sizes_value() */
bool gp_rigid_is_late(const struct gp *g, const struct policy_job *job,
                      double one_s, double speed, int32_t gpus);
/* Decides which jobs of one size start, and which is the head.
 * err  ERR_NOMEM */
int gp_rigid(struct gp *g, struct error *err) MUST_CHECK;
/* Whether the head gets its GPUs. If so, jobs that began after it was submitted
 * do not keep what they need to end in time, as many as it takes.
 * in,out left for it and all live jobs that keep nothing */
bool gp_rigid_head_fits(struct gp *g, int32_t *io_left);
/* The head has its GPUs, but not on as few nodes as it needs: pauses jobs on
 * the nodes that are nearest to it. False: no nodes will do. */
bool gp_rigid_make_room(struct gp *g);
/* The head has no room after all: nobody goes for it. False: nobody was to. */
bool gp_rigid_take_back(struct gp *g);

#endif
