/* job_json.h - JOB of wire.h, as text or as a value. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_JSON_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct ctld;
struct job;

/* Appends the job.
 * in  all  for a user who may see all of it (engine_may); without it the job is
 *          as a queue shows it, without progress and the worker's words
 *     set  the members, of job_json_members(); of these it has the ones that
 *          are not null */
#define JOB_JSON_ALL_MEMBERS UINT64_MAX
int job_json_add(const struct ctld *c, const struct job *job, bool all,
                 uint64_t set, struct buf *out, struct error *err) MUST_CHECK;
/* The same with all members, as a value; NULL: no memory. */
json_t *job_json_value(const struct ctld *c, const struct job *job, bool all);
/* "id,name": the names of members.
 * err  ERR_INVAL a name is not known */
int job_json_members(const char *text, uint64_t *ret,
                     struct error *err) MUST_CHECK;
/* Whether the archive row of a job is enough for these members. */
bool job_json_members_are_brief(uint64_t set);

/* SWEEP of wire.h, of its first task; else null. */
json_t *job_json_sweep(const struct ctld *c, const struct job *job);
/* "warnings" of wire.h; NULL: there are none. */
json_t *job_json_warnings(const struct ctld *c, const struct job *job);

#endif
