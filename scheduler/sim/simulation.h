/* simulation.h - what a call of mgpu-sim(1) reads, runs and writes. */
#ifndef MGPU_SCHEDULER_SIM_SIMULATION_H
#define MGPU_SCHEDULER_SIM_SIMULATION_H

#include "jobs/conf/conf.h"
#include "scheduler/sim/args.h"
#include "scheduler/sim/output/run_replicates.h"
#include "scheduler/sim/replay.h"

/* All that the runs share. */
struct simulation {
    struct sim_args *args;
    struct past past; /* of --from-db; its trace and speed are the ones below */
    struct replay replays[SIM_POLICIES_MAX];
    char ran[REPLAY_POLICY_CAP]; /* the policy of the past */
    struct sim_cluster cluster;
    struct sim_trace trace;
    struct speed *speed;
    size_t n_elastic;            /* jobs of --elastic */
    struct run_figures recorded; /* jobs 0: of no job */
    struct sim_named runs[SIM_POLICIES_MAX];
    struct sim_policy policies[SIM_POLICIES_MAX]; /* of the runs */
    struct conf confs[SIM_POLICIES_MAX];          /* likewise */
    size_t n_runs;
    struct run_replicates replicates;
};

/* ---- simulation_input.c -------------------------------------------------- */
/* Reads cluster, jobs and speeds of --trace, of --from-db, or makes those of
 * --bench. Says on standard error what of a trace is left out.
 * own  the caller clears them, also on failure
 * err  ERR_USAGE; ERR_INVAL with file, line and column; ERR_IO */
int simulation_read(struct simulation *s, struct error *err) MUST_CHECK;

/* ---- replicates.c -------------------------------------------------------- */
/* Runs all policies n times with other arrivals and seeds.
 * own  run_replicates_clear(), also on failure
 * err  as sim_run() */
int replicates_run(struct simulation *s, size_t n,
                   struct error *err) MUST_CHECK;

/* ---- simulation_output.c ------------------------------------------------- */
/* Prints the table and writes the files of the options, of all runs.
 * err  ERR_IO and others of the files */
int simulation_write(struct simulation *s, struct error *err) MUST_CHECK;

/* ---- simulation_page.c --------------------------------------------------- */
/* What the output says beside the figures. */
struct simulation_notes {
    struct buf guessed;  /* sizes without a measurement */
    struct buf missing;  /* what of a past is not repeated */
    struct buf stranded; /* a line for each attempt */
};
/* Writes the page of --html. err  ERR_IO and others of the file */
int simulation_page(const struct simulation *s,
                    const struct simulation_notes *notes,
                    struct error *err) MUST_CHECK;

#endif
