/* archive.h - archived jobs, read from the store apart from any engine. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_H
#define MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_H

#include "scheduler/engine/engine.h"

/* Whether the archive has the job, and memory does not.  err  of the store */
int engine_is_past(struct engine *e, uint64_t id, bool *ret,
                   struct error *err) MUST_CHECK;
/* Then engine_recall() in two parts, of which the first may take long, and
 * knows no engine: any thread may call it.
 * out  ret[*ret_n]  the job, or all of its sweep, by number
 * own  *ret  engine_past_free(), free()
 * err  as engine_recall() */
int engine_past_read_unit(struct store *s, const char *jobs_dir, uint64_t id,
                          struct job ***ret, size_t *ret_n,
                          struct error *err) MUST_CHECK;
/* What engine_past_read_unit() read is in memory, and leaves as after
 * engine_recall().
 * io   io[n]  NULL: the engine has it
 * err  ERR_NOMEM, or ERR_IO: part of a sweep is in memory; then none is;
 *      ERR_BUSY, ERR_NOTFOUND: it is being removed, or was */
int engine_adopt(struct engine *e, struct job **io, size_t n,
                 struct error *err) MUST_CHECK;
/* Which archived jobs a submit would read: that of its key or, if that is new,
 * those that it waits for. Of a sweep in the archive any task stands for all.
 * in   req    its key, or NULL, and uid are looked at
 *      tasks  [n], each with its reading; n 0: only the key counts
 * out  *ret   in order, none twice; NULL: there are none, or the store fails,
 *             and the submit itself finds out
 * own  *ret   free()
 * err  ERR_NOMEM */
int engine_needs(struct engine *e, const struct engine_submit *req,
                 const struct engine_task *tasks, size_t n, uint64_t **ret,
                 size_t *ret_n, struct error *err) MUST_CHECK;
/* Archived jobs, to be looked at and no more; any thread may call it. What
 * takes a job of engine.h takes these as well.
 * out  ret[last - first + 1]  by number. NULL: there is none, or it is damaged;
 *      ret_damage->code ERR_IO: one is, and it says which and why
 * own  engine_past_free()
 * err  of the store; ERR_NOMEM */
int engine_past_read(struct store *s, const char *jobs_dir, uint64_t first,
                     uint64_t last, struct job **ret, struct error *ret_damage,
                     struct error *err) MUST_CHECK;
/* The same by what a list says of each, for a tenth of the time: of struct job
 * there are id, state, uid, name, user, kind, reason, reported, place,
 * priority, gpus_min, gpus_max, gpus, attempt, exit_code, sweep, task, number,
 * limit_s, the times of its submit, start and end, and its progress. NULL: it
 * is not known that way, and has to be read.
 * in   io  NULLs, or jobs of either that nobody needs: their memory is used
 * out  io[last - first + 1]; NULLs on failure */
int engine_past_lines(struct store *s, uint64_t first, uint64_t last,
                      struct job **io, struct error *err) MUST_CHECK;
void engine_past_free(struct job **jobs, size_t n); /* NULLs are fine */

#endif
