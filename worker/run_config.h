/* run_config.h - the configuration of this run: rank 0 reads it, and all ranks
 * have the same. */
#ifndef MGPU_WORKER_RUN_CONFIG_H
#define MGPU_WORKER_RUN_CONFIG_H

#include "jobs/spec/spec.h"
#include "jobs/wire/wire.h"
#include "worker/comm/comm.h"
#include "worker/report/reporter.h"

struct worker_job {
    struct wire_launch launch;
    char out_dir[1024], ckpt_dir[1024];
};

/* Reads a specification and draws its seed. Findings go to standard error.
 * out  ret  end it with spec_clear()
 * err  ERR_INVAL it is none; ERR_NOTFOUND, ERR_IO, ERR_NOMEM */
int run_config_read_job(const char *file, struct job_spec *ret,
                        struct error *err) MUST_CHECK;
/* Reads the job from launch.json. */
int job_from_launch(const char *file, struct comm *c, struct worker_job *ret,
                    struct error *err) MUST_CHECK;
/* Reads the job from a specification alone: no daemon, number 0, all files
 * under dir (NULL: "<name>.run" in the working directory). */
int job_from_spec(const char *file, const char *dir, struct comm *c,
                  struct worker_job *ret, struct error *err) MUST_CHECK;
/* Creates the directory of results, which the user names: after the claim, so
 * that the daemon gets the reason if it cannot be made. train.eval_only writes
 * none, and needs no directory. */
int job_make_dirs(const struct worker_job *j, struct error *err) MUST_CHECK;
/* Rank 0 makes the directories of a training the job's: err as
 * dir_owner_take(), but ERR_INVAL where one is another job's. One that only
 * evaluates owns none: it has the job's own file, and writes nothing. */
int job_own_dirs(const struct worker_job *j, struct error *err) MUST_CHECK;
void job_clear(struct worker_job *j); /* zeroed is fine */

struct report_conf job_report_conf(const struct worker_job *j, int32_t rank);

#endif
