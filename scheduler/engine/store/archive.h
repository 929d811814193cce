/* archive.h - archived jobs, read from the store apart from any engine. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_H
#define MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_H

#include "scheduler/engine/engine.h"

/* Whether the job is in the archive but not in memory. err of the store */
int engine_is_past(struct engine *e, uint64_t id, bool *ret,
                   struct error *err) MUST_CHECK;
/* The first part of engine_recall(), which may take long. It does not use an
 * engine: any thread may call it.
 * out  ret[*ret_n]  the job, or all tasks of its sweep, by id
 * own  *ret  engine_archive_free(), free()
 * err  as engine_recall() */
int engine_archive_read_unit(struct store *s, const char *jobs_dir, uint64_t id,
                             struct job ***ret, size_t *ret_n,
                             struct error *err) MUST_CHECK;
/* The second part: takes what engine_archive_read_unit() has read into memory,
 * where it stays as after engine_recall(). io io[n] set to NULL when the engine
 * has taken it
 * err  ERR_NOMEM, or ERR_IO: part of a sweep is in memory; then nothing is
 *      taken; ERR_BUSY, ERR_NOTFOUND: it is being removed, or was */
int engine_adopt(struct engine *e, struct job **io, size_t n,
                 struct error *err) MUST_CHECK;
/* The archived jobs that a submit would reload: the job of its key or, if the
 * key is new, the dependencies. For an archived sweep, any of its tasks is
 * returned.
 * in   req    its key, or NULL, and uid are used
 *      tasks  [n], each with its parsed spec; n 0: only the key counts
 * out  *ret   in order, without duplicates; NULL: none, or the store fails,
 *      which the submit will find out itself
 * own  *ret   free()
 * err  ERR_NOMEM */
int engine_needs(struct engine *e, const struct engine_submit *req,
                 const struct engine_task *tasks, size_t n, uint64_t **ret,
                 size_t *ret_n, struct error *err) MUST_CHECK;
/* Archived jobs, for reading only; any thread may call it. The functions of
 * engine.h that take a job accept these as well.
 * out  ret[last - first + 1]  by id. NULL: there is none, or it is damaged;
 *      ret_damage->code ERR_IO: one is damaged, and the message says which and
 *      why
 * own  engine_archive_free()
 * err  of the store; ERR_NOMEM */
int engine_archive_read(struct store *s, const char *jobs_dir, uint64_t first,
                        uint64_t last, struct job **ret,
                        struct error *ret_damage, struct error *err) MUST_CHECK;
/* The same from the summaries, which takes a tenth of the time. These members
 * of struct job are set: id, state, uid, name, user, kind, reason, reported,
 * place, priority, gpus_min, gpus_max, gpus, attempt, exit_code, sweep, task,
 * number, limit_s, the times of its submit, start and end, its progress, and
 * parent and parent_name. NULL: the job has no summary, and must be read.
 * in   io  NULLs, or jobs of either function that are not needed any more:
 *      their memory is reused
 * out  io[last - first + 1]; NULLs on failure */
int engine_archive_lines(struct store *s, uint64_t first, uint64_t last,
                         struct job **io, struct error *err) MUST_CHECK;
void engine_archive_free(struct job **jobs, size_t n); /* NULLs are fine */

#endif
