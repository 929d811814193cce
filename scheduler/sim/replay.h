/* replay.h - what people did in the past, for one run of --from-db. */
#ifndef MGPU_SCHEDULER_SIM_REPLAY_H
#define MGPU_SCHEDULER_SIM_REPLAY_H

#include "scheduler/sim/past/from_db.h"
#include "scheduler/sim/run/sim_run.h"

struct conf;
struct replay {
    struct sim_action *actions; /* owned; in the order of time */
    size_t n;
    struct sim_policy *changes; /* owned; the actions point to them */
    struct conf *confs;         /* owned; [n_confs], of the changes */
    size_t n_confs;
    size_t n_resizes; /* left out */
};

/* Whether a --policy is the one that ran: it has the name of the policy at the
 * first submit.
 * in   word     NULL: it is
 * out  ret_ran  the policy that ran; NULL to skip
 * err  as sim_policy_args() */
enum { REPLAY_POLICY_CAP = 64 };
int replay_is_past(const struct past *p, const char *config, const char *word,
                   char ret_ran[REPLAY_POLICY_CAP], bool *ret,
                   struct error *err) MUST_CHECK;
/* The settings with which the run begins.
 * in   is_past  false: the run keeps its own policy */
struct past_settings replay_begin(const struct past *p, bool is_past);
/* All actions on jobs of the trace and all changes of the policy. A run of
 * another policy than that which ran has no resize, and keeps its own policy;
 * keys that --policy names keep their values.
 * own  replay_clear(), also on failure
 * err  as sim_policy_args() */
int replay_make(const struct past *p, const struct sim_trace *t,
                const char *config, const char *word, bool is_past,
                struct replay *ret, struct error *err) MUST_CHECK;
/* What an update of the past changes. */
struct engine_update replay_update(const struct past_action *a);
/* Adds what this run did not repeat, if anything.
 * in   name, ran      the policy of the run, and the one that ran
 *      n_not_applied  actions that the engine refused */
int replay_left_out(const struct replay *r, const char *name, const char *ran,
                    size_t n_not_applied, struct buf *out,
                    struct error *err) MUST_CHECK;
void replay_clear(struct replay *r); /* a zeroed one is fine */

#endif
