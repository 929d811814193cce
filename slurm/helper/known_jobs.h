/* known_jobs.h - Slurm's jobs that are ours: the last scan, and later
 * submissions.
 *
 * A submit command asks whether its tag was submitted already, so that a
 * command that the daemon repeats starts no second job; the poller passes each
 * scan in and receives the news. Thread-safe.
 *
 * A job that was submitted after a scan began is not in that scan, so it is
 * remembered separately until a scan that began later has ended. From then on
 * the scan decides, even if Slurm has lost the job. */
#ifndef MGPU_SLURM_HELPER_KNOWN_JOBS_H
#define MGPU_SLURM_HELPER_KNOWN_JOBS_H

#include "slurm/protocol/helper_wire.h"

struct seen;
int known_jobs_create(struct seen **ret, struct error *err) MUST_CHECK;
void known_jobs_destroy(struct seen *s);

enum seen_answer { SEEN_NEVER, SEEN_NOW, SEEN_BEFORE };
/* NEVER: marked as being submitted until known_jobs_done(). NOW: another thread
 * is submitting it. BEFORE: as *ret_id. A tag of another user does not count.
 */
int known_jobs_ask(struct seen *s, const char *tag, uid_t uid,
                   enum seen_answer *ret, uint32_t *ret_id,
                   struct error *err) MUST_CHECK;
void known_jobs_done(struct seen *s, const char *tag, uid_t uid,
                     uint32_t slurm_id); /* 0: it was not accepted */

uint64_t known_jobs_scan_begin(struct seen *s);
/* Takes all jobs of the scan that began as `when`; appends "job" and "gone"
 * lines for new, changed and vanished jobs, and a "scan" line.
 *
 * in   jobs[n]  copied; those with the same id in any order
 * err  ERR_NOMEM nothing has changed */
int known_jobs_scan_end(struct seen *s, uint64_t when,
                        const struct helper_job *jobs, size_t n,
                        struct buf *news, struct error *err) MUST_CHECK;

#endif
