/* sim_world.h - the state of a simulation, shared by the files of this folder.
 */
#ifndef MGPU_SCHEDULER_SIM_RUN_SIM_WORLD_H
#define MGPU_SCHEDULER_SIM_RUN_SIM_WORLD_H

#include "db/event_store.h"
#include "jobs/base/rng.h"
#include "scheduler/sim/run/sim_run.h"
#include "slurm/fake/alloc_fake.h"

/* The clock of a simulation begins here, so that no time is 0. */
#define SIM_BEGIN_S 1000.0
#define SIM_EPOCH_S 1.7e9

/* How many resizes of a job are remembered: the most of an hour. */
enum { SIM_RESIZES = 20 };

/* A job of the trace in the simulation. Times on the virtual clock. */
struct sim_state {
    uint64_t id; /* the engine's; 0: not submitted */
    int32_t attempt;
    bool runs;        /* it has GPUs */
    bool is_claimed;  /* its worker has sent its first heartbeat */
    bool is_stopping; /* its ranks were told to stop */
    bool is_over;     /* in a final state */
    double done;      /* work, at from_s */
    double saved;     /* work that a lost node does not lose */
    double from_s;    /* since when it advances in this attempt */
    double grant_s;   /* when this attempt got its GPUs */
    double restart_s; /* since when its restart took: the word to stop, if the
                         policy has resized it, else grant_s */
    double began_s;   /* its first iteration; INFINITY: not yet */
    double asked_s;   /* the word to stop, for the next attempt; 0: none */
    int32_t paused_gpus, paused_nodes; /* that it had when the policy paused it;
                                          0: it did not */
    size_t paused_at;                  /* changes of the world until then */
    double factor;   /* seconds of this attempt per second of the model */
    double reported; /* the work in all, as its worker reports it */
    double told;     /* work up to which the engine was taught */
    double crowd;    /* integral of the number of jobs at its submit */
    double resized_s[SIM_RESIZES]; /* by the policy, see sim_account.c */
    size_t n_resizes;
    double watts; /* of a GPU of the attempt: the mean of the nodes that its
                     place names */
    int32_t spent_gpus; /* when it grew beyond that; 0: it has not */
    char gpu_type[32];  /* of its nodes */
    int32_t nodes, per_node;
    int32_t live;         /* index in the live ones */
    size_t span, n_spans; /* of this attempt */
};

enum sim_due { DUE_FIRST_BEAT, DUE_END, DUE_FAILURE, DUE_REPAIR };
struct sim_timer {
    double t_s;
    uint64_t serial; /* of equal times the oldest first */
    enum sim_due due;
    int32_t i, attempt; /* the job, or the node */
};

struct sim_world {
    const struct sim_conf *conf;
    const struct sim_policy *policy;
    struct sim_output *out;
    struct clock_virtual clock;
    struct alloc_fake_world *cluster;
    struct alloc *alloc;
    struct store_mem_world *db;
    struct store *store;
    struct engine_conf engine_conf;
    struct engine *engine;

    struct sim_state *jobs; /* [trace->n] */
    int32_t *of_id;         /* [last_id + 1] job of the engine's id */
    uint64_t last_id;
    struct sim_timer *heap; /* by time */
    size_t n_heap, cap_heap;
    uint64_t serial;
    int32_t *granted; /* [trace->n] jobs whose worker has to claim */
    size_t n_granted;
    int32_t *live; /* [trace->n] jobs that have GPUs */
    size_t n_live;
    size_t n_submitted, n_over, n_action;
    size_t n_grants;   /* attempts that got their GPUs */
    size_t n_downs;    /* nodes that failed, or came back */
    double round_at_s; /* the next round of heartbeats; INFINITY: none */

    int32_t *gpus; /* [nodes] of each */
    int32_t *used; /* [nodes] by our own count */
    int32_t used_total;
    bool *is_down;       /* [nodes] */
    int32_t down_total;  /* GPUs of nodes that are down */
    double at_s;         /* up to which the integrals go */
    double crowd;        /* integral of the number of jobs that are there */
    struct rng rng;      /* failures of nodes */
    struct error broken; /* an invariant, found in a callback */
};

static inline double sim_now(const struct sim_world *w)
{
    return w->clock.t_s;
}

/* ---- sim_timers.c -------------------------------------------------------- */
int sim_timer_add(struct sim_world *w, double t_s, enum sim_due due, int32_t i,
                  int32_t attempt, struct error *err) MUST_CHECK;
/* The earliest, or NULL. */
const struct sim_timer *sim_timer_first(const struct sim_world *w);
struct sim_timer sim_timer_take(struct sim_world *w);

/* ---- sim_users.c --------------------------------------------------------- */
/* Submits the next job of the trace. */
int sim_submit(struct sim_world *w, struct error *err) MUST_CHECK;
/* Repeats the next action of a person. */
int sim_act(struct sim_world *w, struct error *err) MUST_CHECK;

/* ---- sim_workers.c ------------------------------------------------------- */
/* The engine's callback: after an event is durable. */
void sim_on_event(void *arg, const struct store_event *event,
                  const struct job *job);
/* The workers of the attempts that were granted claim their leases. */
int sim_claim(struct sim_world *w, struct error *err) MUST_CHECK;
int sim_first_beat(struct sim_world *w, int32_t i,
                   struct error *err) MUST_CHECK;
/* All work is done: reports, and exits. */
int sim_end(struct sim_world *w, int32_t i, struct error *err) MUST_CHECK;
/* A job that adapts its batch tells its speed on the sizes that its class has
 * run on. */
int sim_adapt(struct sim_world *w, int32_t i, struct error *err) MUST_CHECK;
/* A heartbeat of every worker that has begun. */
int sim_round(struct sim_world *w, struct error *err) MUST_CHECK;
/* The cost of a start. */
double sim_restart_s(const struct sim_conf *conf, const struct sim_job *job,
                     int32_t attempt);
/* Tokens, without a secret. */
int sim_secret(void *arg, enum engine_secret what, uint64_t job,
               int32_t attempt, char ret[ENGINE_SECRET_CAP], struct error *err);

/* ---- sim_nodes.c --------------------------------------------------------- */
/* The first failure of each node, if nodes fail. */
int sim_nodes_begin(struct sim_world *w, struct error *err) MUST_CHECK;
int sim_node_fail(struct sim_world *w, int32_t node,
                  struct error *err) MUST_CHECK;
int sim_node_repair(struct sim_world *w, int32_t node,
                    struct error *err) MUST_CHECK;
/* Calls each() for every node of a place, "n1:0-3 n2:0". Returns the number of
 * nodes, or -1 if the place is cut: it has room for some 60 to 90 nodes. */
int32_t sim_place_each(const char *place,
                       void (*each)(void *arg, int32_t node, int32_t gpus,
                                    uint64_t mask),
                       void *arg);

/* ---- sim_account.c ------------------------------------------------------- */
/* Integrates up to the clock's now. */
void sim_account(struct sim_world *w);
/* Books the GPUs of an attempt, and frees them; checks that a node never has
 * more than it has. */
void sim_book(struct sim_world *w, int32_t i, const struct job *job);
void sim_unbook(struct sim_world *w, int32_t i, const struct job *job);
/* The policy resizes the job: not within its minimum run time, nor more often
 * than it may. Beyond that, it grows two intervals later, and gives that back.
 */
void sim_check_resize(struct sim_world *w, int32_t i, const struct job *job);
/* The policy leaves no size that has not paid for its restart: the attempt has
 * computed for as long as that took, at most the horizon. */
void sim_check_paid(struct sim_world *w, int32_t i, const struct job *job);
/* Nobody restarts at his own size for nothing: until what the policy has paused
 * comes back so, another job has got GPUs, or jobs, nodes or requests of people
 * came or went. */
void sim_check_restart(struct sim_world *w, int32_t i, const struct job *job);
/* The figures of a job that has ended. */
void sim_account_end(struct sim_world *w, int32_t i, const struct job *job);
/* An invariant does not hold: the run fails after this step. */
void sim_account_broken(struct sim_world *w, const char *what, int32_t i);
/* After the last job. err  ERR_INTERNAL the sums contradict each other */
int sim_account_check(const struct sim_world *w, struct error *err) MUST_CHECK;

/* A number that depends on these alone, with mean 0 and variance 1. */
double sim_normal(uint64_t seed, uint64_t a, uint64_t b);

#endif
