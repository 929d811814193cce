/* known_jobs.h - which of Slurm's jobs are ours: the last scan, and what was
 * submitted since.
 *
 * Commands ask it whether a tag was submitted already, so that a command
 * that the daemon repeats starts nothing twice; the poller gives it each
 * scan and gets the news. Thread-safe.
 *
 * A job that was submitted after a scan began is not in that scan, so it is
 * remembered on its own until a scan that began later has ended: from then
 * on the scan is right, also when Slurm has lost the job.
 */
#ifndef MGPU_SLURM_HELPER_KNOWN_JOBS_H
#define MGPU_SLURM_HELPER_KNOWN_JOBS_H

#include "slurm/protocol/helper_wire.h"

struct seen;
int seen_create(struct seen **ret, struct error *err) MUST_CHECK;
void seen_destroy(struct seen *s);

enum seen_answer { SEEN_NEVER, SEEN_NOW, SEEN_BEFORE };
/* NEVER: it is noted as being submitted until seen_done(). NOW: somebody
 * submits it at this moment. BEFORE: as *ret_id. A tag of another user is
 * not this one. */
int seen_ask(struct seen *s, const char *tag, uid_t uid, enum seen_answer *ret,
             uint32_t *ret_id, struct error *err) MUST_CHECK;
void seen_done(struct seen *s, const char *tag, uid_t uid,
               uint32_t slurm_id); /* 0: it was not accepted */

uint64_t seen_scan_begin(struct seen *s);
/* All jobs of the scan that began as `when`: appends "job" and "gone" lines
 * for what is new, has changed, or has vanished, and a "scan" line.
 *
 * in   jobs[n]  copied; with the same ids in any order
 * err  ERR_NOMEM nothing has changed
 */
int seen_scan_end(struct seen *s, uint64_t when, const struct helper_job *jobs,
                  size_t n, struct buf *news, struct error *err) MUST_CHECK;

#endif
