/* resume_job.c - see resume_job.h.
 *
 * The daemon checks the job again when it takes the submit. What is found here
 * has its line in the file, and only here are the user's files visible: the
 * daemon may not read them. */
#include "scheduler/tools/submit/resume_job.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/spec/dependency.h"
#include "jobs/text/parent_ref.h"
#include "scheduler/tools/common/checkpoint_list.h"
#include "scheduler/tools/common/client.h"

/* Whether its checkpoints would be in its own directory, which is here. */
static bool is_here(const json_t *job)
{
    const json_t *spec = json_object_get(job, "spec");
    const json_t *train = json_object_get(spec, "train");
    struct stat st;
    return !*field_str(json_object_get(spec, "checkpoint"), "dir") &&
           !*field_str(train, "output_dir") &&
           stat(field_str(job, "dir"), &st) == 0;
}

static int look_for_checkpoint(const json_t *job, bool is_best,
                               struct error *err)
{
    char newest[CHECKPOINT_PATH_CAP], best[CHECKPOINT_PATH_CAP];
    const char *id = field_str(job, "display_id");
    checkpoint_find(job, newest, best);
    if (is_best ? best[0] : newest[0])
        return 0;
    if (newest[0])
        return error_set(err, ERR_INVAL,
                         "job %s has no best checkpoint: checkpoint.keep_best "
                         "keeps one; %s names its newest",
                         id, id);
    if (best[0])
        return error_set(err, ERR_INVAL,
                         "job %s has its best checkpoint alone: name %s:best",
                         id, id);
    return is_here(job)
               ? error_set(err, ERR_INVAL, "job %s has no checkpoint", id)
               : error_set(err, ERR_NOTFOUND, "no checkpoint of job %s is here",
                           id);
}

static struct depend_parent facts_of(const json_t *reply, enum job_state state)
{
    const json_t *job = json_object_get(reply, "job");
    const json_t *sweep = json_object_get(reply, "sweep");
    return (struct depend_parent){.id = (uint64_t)field_int(job, "id", 0),
                                  .sweep = (uint64_t)field_int(job, "sweep", 0),
                                  .number = (int32_t)field_int(job, "task", 0),
                                  .n_tasks =
                                      (int32_t)field_int(sweep, "n_tasks", 0),
                                  .state = state,
                                  .kind = field_str(job, "kind")};
}

/* Invalid ones have been reported. */
static size_t awaited(const struct job_spec *s, struct depend ret[DEPEND_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < s->depends_on.n; i++)
        if (depend_parse(s->depends_on.items[i], ret, &n, NULL) < 0)
            break;
    return n;
}

/* in   reply  NULL: the user has no such job */
static int check(const struct job_spec *s, const char *named,
                 const json_t *reply, struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    struct depend depends[DEPEND_MAX];
    const size_t n = awaited(s, depends);
    const char *word = field_str(job, "state");
    enum job_state state = JOB_NEW;
    struct parent_ref ref = {.job = 0};
    const bool is_mine =
        reply != NULL && field_int(job, "uid", -1) == (int64_t)getuid();
    if (is_mine && job_state_from_text(word, strlen(word), &state) < 0)
        return error_set(err, ERR_UNAVAIL, "a newer daemon's state");
    const struct depend_parent p = facts_of(reply, state);
    if (depend_check_parent(named, is_mine ? &p : NULL, spec_kind_word(s->kind),
                            depends, n, err) < 0)
        return -1;
    (void)parent_ref_parse(named, &ref);
    return job_state_is_final(state)
               ? look_for_checkpoint(job, ref.is_best, err)
               : 0;
}

int resume_job_look(void *arg, const struct job_spec *s, const char *named,
                    struct error *err)
{
    struct resume_job *r = arg;
    struct error why = ERROR_INIT;
    json_t *reply = NULL;
    if (!r->is_away && r->client == NULL &&
        client_create(r->url, 5, &r->client, &why) < 0)
        r->is_away = true;
    if (r->is_away)
        return error_set(err, ERR_UNAVAIL, "the daemon does not answer");
    int rc = client_get(r->client, &reply, &why, "/v1/jobs/%.*s",
                        (int)strcspn(named, ":"), named);
    if (rc == 0 || why.code == ERR_NOTFOUND || why.code == ERR_DENIED)
        rc = check(s, named, reply, err);
    else {
        r->is_away = true;
        rc = error_set(err, ERR_UNAVAIL, "%s", why.msg);
    }
    json_decref(reply);
    return rc;
}

void resume_job_clear(struct resume_job *r)
{
    client_destroy(r->client);
    r->client = NULL;
}
