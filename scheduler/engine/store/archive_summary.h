/* archive_summary.h - what a list says of an archived job, as one short text.
 *
 * It is written when the job is archived and read instead of its events, of
 * which it is a tenth. It never says anything that the events do not say:
 * where there is none, or one that cannot be read, they are read.
 */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_SUMMARY_H
#define MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_SUMMARY_H

#include "scheduler/engine/engine_internal.h"

/* NULL: it has none, also without memory.
 * in   en  of a job that is about to be archived
 * own  the caller frees */
char *line_encode(const struct entry *en);
/* in   *io  NULL, or a job that nobody needs: its memory is used
 * out  *io  of struct job what archive.h says of engine_past_lines(); all else
 *           is as of a job of which nothing is known
 * own  *io  eng_entry_free()
 * err  -1: it is none, or there was no memory; *io is NULL */
int line_decode(uint64_t id, const char *text, struct entry **io) MUST_CHECK;

#endif
