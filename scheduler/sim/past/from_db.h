/* from_db.h - the past of a daemon as a trace: --from-db.
 *
 * Jobs, ranges, limits and priorities are those of state.db; speeds are those
 * of v_scaling in metrics.db. A job without iterations takes as long as it
 * took. Nothing is written, and a daemon may be running. */
#ifndef MGPU_SCHEDULER_SIM_PAST_FROM_DB_H
#define MGPU_SCHEDULER_SIM_PAST_FROM_DB_H

#include "scheduler/sim/trace/speed.h"

/* What a person did to a job, or Slurm. */
struct past_action {
    double t_s; /* since the first submit */
    enum sim_act act;
    uint64_t job;
    int32_t priority;
    int32_t gpus, nodes;  /* of a resize; 0: any */
    bool has_priority;    /* of an update, and the next two */
    int64_t limit_ms;     /* 0: none; -1: as before */
    int32_t max_parallel; /* likewise */
};

/* An attempt that was requested and never granted, though the job was not taken
 * back for another one. */
struct past_stranded {
    uint64_t job;
    char name[SIM_NAME_CAP];
    int32_t gpus;           /* that it asked for */
    double from_s, until_s; /* since the first submit; until_s NAN: it is
                               pending */
    double left_s; /* when the attempt before it was told to stop for it, or
                      from_s */
    bool is_last;  /* no attempt of the job followed */
};

/* An attempt that ran. */
struct past_attempt {
    uint64_t job;
    int32_t gpus;
    double intent_s; /* since the first submit, when it was requested, */
    double stop_s;   /* and told to stop, or ended; INFINITY: neither */
};

/* The keys of the policy that admin.log has, from some time on. */
enum { PAST_KEYS_MAX = 64 };
struct past_settings {
    double t_s;      /* since the first submit */
    char policy[64]; /* scheduler.policy; "": not known */
    struct {
        char key[64], value[64];
        bool is_base; /* no administrator had set it: a --config has its own */
    } at[PAST_KEYS_MAX];
    size_t n;
};

struct past {
    struct sim_trace trace;
    struct speed *speed;         /* owned */
    struct past_action *actions; /* owned; in the order of time */
    size_t n_actions, cap_actions;
    char cluster[128]; /* as --cluster: from the places of the attempts */
    struct past_settings *settings; /* owned; in the order of time, the first
                                       one in force at the first submit */
    size_t n_settings;
    struct past_stranded *stranded; /* owned; in the order of time */
    size_t n_stranded;
    struct past_attempt *attempts; /* owned; by job, in their order */
    size_t n_attempts, cap_attempts;
    double granted_s; /* makespan without jobs whose last attempt stranded */
    /* What a simulation does not repeat: */
    size_t n_admin;        /* actions in admin.log, such as pause and drain */
    size_t n_unknown_keys; /* settings of keys that are no more */
    size_t n_cut; /* tasks of sweeps that have other tasks outside of the time,
                     or purged: they run without max_parallel */
};

/* in   since_s, until_s  of the submits, seconds since 1970; NAN: no bound
 * out  ret  from_db_clear()
 * err  ERR_NOTFOUND, ERR_DENIED the files; ERR_INVAL they have no job, or are
 *      no databases of mgpu */
int from_db_open(const char *state_dir, double since_s, double until_s,
                 struct past *ret, struct error *err) MUST_CHECK;
void from_db_clear(struct past *p); /* a zeroed one is fine */

/* ---- past_settings.c ----------------------------------------------------- */
/* Reads the lines of admin.log to their end.
 * in   first_s, last_s  of the past, seconds since 1970
 * out  p  its settings, n_admin and n_unknown_keys; from_db_clear() also on
 *      failure
 * err  ERR_INVAL a finding */
int past_settings_read(struct lines *l, double first_s, double last_s,
                       struct past *p, struct error *err) MUST_CHECK;
/* Names what is not repeated. */
int past_not_replayed(const struct past *p, struct buf *out,
                      struct error *err) MUST_CHECK;

/* ---- past_stranded.c ----------------------------------------------------- */
/* Times since 1970 until past_stranded_apply().
 * own  from_db_clear() */
int past_stranded_add(struct past *p, const struct past_stranded *one,
                      struct error *err) MUST_CHECK;
/* When a job ended, or NAN, for granted_s. */
void past_stranded_end(struct past *p, uint64_t job, double end_s);
/* Each job whose last attempt stranded leaves the simulation at that time. */
int past_stranded_apply(struct past *p, double first_s,
                        struct error *err) MUST_CHECK;
/* A line for each. */
int past_stranded_say(const struct past *p, struct buf *out,
                      struct error *err) MUST_CHECK;

/* ---- past_attempts_sqlite.c ---------------------------------------------- */
struct sqlite3;
/* in   db       state.db
 *      first_s  the first submit, since 1970
 * err  ERR_INVAL, ERR_NOMEM */
int past_attempts_read(struct sqlite3 *db, double since_s, double until_s,
                       double first_s, struct past *p,
                       struct error *err) MUST_CHECK;
/* The index of the first attempt of the job, and how many there are. */
size_t past_attempts_of(const struct past *p, uint64_t job, size_t *ret_n);
/* The GPUs that all attempts of the job had; 0: they differ, or it never ran.
 */
int32_t past_attempts_size(const struct past *p, uint64_t job);

/* ---- past_spec.c --------------------------------------------------------- */
/* The specification for a simulated cluster: without partition, reservation,
 * node features, GPU types, memory and CPUs, and without dependencies on jobs
 * that the trace does not have.
 * own  *ret: the caller frees
 * err  ERR_INVAL it is no JSON object */
int past_spec(const char *spec, bool (*has_job)(void *arg, uint64_t id),
              void *arg, char **ret, struct error *err) MUST_CHECK;
/* The specification with this number of GPUs alone. Likewise. */
int past_spec_sized(const char *spec, int32_t gpus, char **ret,
                    struct error *err) MUST_CHECK;
/* Tasks of sweeps that are not whole become jobs of their own. out p n_cut */
void past_find_sweeps(struct past *p);
/* Adds the nodes of a place, "vm:0,1 n2:0-3", to a list of nodes. */
enum { PAST_NODES_MAX = 4096 };
struct past_nodes {
    struct {
        char name[64];
        int32_t gpus; /* the highest index + 1 */
    } at[PAST_NODES_MAX];
    size_t n;
};
void past_nodes_add(struct past_nodes *n, const char *place);
/* "2x8,1x4"; nodes with the same number of GPUs are a group. */
void past_nodes_text(const struct past_nodes *n, char *ret, size_t cap);

#endif
