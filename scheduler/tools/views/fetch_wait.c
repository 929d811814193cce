/* fetch_wait.c - mgpu-stat --wait: resolve the named jobs and wait for them. */
#include "jobs/base/buf.h"
#include "scheduler/tools/views/fetch.h"

/* Adds the ids that a word stands for; for a sweep, those of its tasks. */
static int add_ids(struct client *c, const char *word, struct buf *ids,
                   struct error *err)
{
    json_t *job = NULL, *tasks = NULL, *task;
    uint64_t id = 0;
    size_t i;
    int rc = client_get(c, &job, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = fetch_tasks(c, word, job, false, &tasks, err);
    if (rc == 0 && !tasks) {
        id = (uint64_t)field_int(json_object_get(job, "job"), "id", 0);
        rc = buf_add(ids, &id, sizeof(id), err);
    }
    json_array_foreach(json_object_get(tasks, "jobs"), i, task)
    {
        id = (uint64_t)field_int(task, "id", 0);
        if (rc == 0)
            rc = buf_add(ids, &id, sizeof(id), err);
    }
    json_decref(job);
    json_decref(tasks);
    return rc;
}

int fetch_wait(struct client *c, const struct fetch *f, char **words, size_t n,
               const struct wait_conf *conf, int *ret_exit, struct error *err)
{
    struct buf ids = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_ids(c, words[i], &ids, err);
    if (rc == 0)
        rc = wait_for_jobs(c, (const uint64_t *)(const void *)buf_str(&ids),
                           ids.len / sizeof(uint64_t), conf, ret_exit, err);
    for (size_t i = 0; rc == 0 && f->json && i < n; i++)
        rc = fetch_detail(c, f, words[i], err);
    buf_clear(&ids);
    return rc;
}
