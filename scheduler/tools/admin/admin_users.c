/* admin_users.c - mgpu-admin who: count jobs and GPUs per user; see
 * admin_users.h.
 */
#include "scheduler/tools/admin/admin_users.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/common/render.h"

static void add(json_t *o, const char *key, int64_t n)
{
    (void)json_object_set_new(o, key, json_integer(field_int(o, key, 0) + n));
}

/* io  users  by uid as text */
static int count(json_t *users, const json_t *job, struct error *err)
{
    char uid[24];
    enum job_state s = JOB_NEW;
    (void)snprintf(uid, sizeof(uid), "%" PRId64, field_int(job, "uid", -1));
    json_t *o = json_object_get(users, uid);
    if (!o) {
        o = json_pack("{s:s, s:I, s:i, s:i, s:i, s:i}", "user",
                      field_str(job, "user"), "uid",
                      (json_int_t)field_int(job, "uid", -1), "running", 0,
                      "gpus", 0, "queued", 0, "held", 0);
        if (json_object_set_new(users, uid, o) < 0)
            return error_set(err, ERR_NOMEM, "users");
    }
    (void)job_state_from_name(field_str(job, "state"), &s);
    bool runs = job_state_is_live(s) && !job_state_is_pending(s);
    add(o, "running", runs);
    add(o, "gpus", runs ? field_int(job, "gpus", 0) : 0);
    add(o, "queued", job_state_is_pending(s));
    add(o, "held", s == JOB_HELD);
    return 0;
}

static int by_gpus(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int64_t i = field_int(x, "gpus", 0), k = field_int(y, "gpus", 0);
    if (i != k)
        return i > k ? -1 : 1;
    return strcmp(field_str(x, "user"), field_str(y, "user"));
}

static int in_order(json_t *users, json_t **ret, struct error *err)
{
    json_t *o, *list = json_array();
    json_t **v = calloc(json_object_size(users) + 1, sizeof(json_t *));
    const char *uid;
    size_t n = 0;
    if (!v || !list) {
        free(v);
        json_decref(list);
        return error_set(err, ERR_NOMEM, "users");
    }
    json_object_foreach(users, uid, o)
    {
        v[n++] = o;
    }
    qsort(v, n, sizeof(json_t *), by_gpus);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append(list, v[i]);
    free(v);
    *ret = list;
    return 0;
}

static int print_table(const json_t *list, struct error *err)
{
    static const struct render_column columns[] = {
        {"USER", RENDER_LEFT},     {"UID", RENDER_RIGHT},
        {"RUNNING", RENDER_RIGHT}, {"GPUS", RENDER_RIGHT},
        {"QUEUED", RENDER_RIGHT},  {"HELD", RENDER_RIGHT},
    };
    static const char *const keys[] = {"uid", "running", "gpus", "queued",
                                       "held"};
    struct render_style style;
    struct render_table *t = NULL;
    size_t i;
    json_t *o;
    render_style_init(&style, stdout);
    int rc = render_table_create(columns, 6, &t, err);
    json_array_foreach(list, i, o)
    {
        if (rc == 0)
            rc = render_table_put(t, field_str(o, "user"), err);
        for (size_t k = 0; rc == 0 && k < 5; k++)
            rc = render_table_add(t, err, "%" PRId64, field_int(o, keys[k], 0));
    }
    if (rc == 0)
        render_table_print(t, &style, true, stdout);
    render_table_destroy(t);
    return rc;
}

int admin_users(struct client *c, bool json, struct error *err)
{
    const struct filter all = {.user = NULL}; /* live and pending jobs */
    struct buf query = BUF_INIT;
    json_t *reply = NULL, *users = json_object(), *list = NULL, *job;
    size_t i;
    int rc = users ? filter_query(&all, &query, err)
                   : error_set(err, ERR_NOMEM, "users");
    if (rc == 0)
        rc = client_get(c, &reply, err,
                        "/v1/jobs?limit=100000&fields=user,uid,state,gpus%s",
                        buf_str(&query));
    json_array_foreach(json_object_get(reply, "jobs"), i, job)
    {
        if (rc == 0)
            rc = count(users, job, err);
    }
    if (rc == 0)
        rc = in_order(users, &list, err);
    if (rc == 0 && json) {
        json_t *o =
            json_pack("{s:s, s:O}", "schema", "mgpu.who/1", "users", list);
        rc = client_print(o, err);
        json_decref(o);
    } else if (rc == 0) {
        rc = print_table(list, err);
    }
    buf_clear(&query);
    json_decref(list);
    json_decref(users);
    json_decref(reply);
    return rc;
}
