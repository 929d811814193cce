/* archive_summary.h - a short text with what listings show of an archived job.
 *
 * The engine writes it when it archives the job, and reads it instead of the
 * events, which are ten times as long. It never contains more than the events
 * do: if it is missing, or cannot be read, the events are read.
 */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_SUMMARY_H
#define MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_SUMMARY_H

#include "scheduler/engine/engine_internal.h"

/* NULL: the job gets no summary, also when out of memory.
 * in   rec  of a job that is about to be archived
 * own  the caller frees */
char *summary_encode(const struct job_record *rec);
/* in   *io  NULL, or a job that is not needed any more: its memory is reused
 * out  *io  the members of struct job that archive.h lists for
 *      engine_archive_lines(); all others have their initial values
 * own  *io  job_record_free()
 * err  -1: the text is no summary, or out of memory; *io is NULL */
int summary_decode(uint64_t id, const char *text,
                   struct job_record **io) MUST_CHECK;

#endif
