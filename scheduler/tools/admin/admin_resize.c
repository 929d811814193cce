/* admin_resize.c - see admin_resize.h. */
#include "scheduler/tools/admin/admin_resize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/tools/common/render.h"

enum { GPUS_MAX = 1024 }; /* of resources.gpus */

static int body_of(const struct admin_resize *conf, const char *word,
                   json_t **ret, struct error *err)
{
    bool is_any = strcmp(word, "any") == 0;
    char *end = NULL;
    long n = is_any ? 0 : strtol(word, &end, 10);
    if (!is_any && (end == word || *end || n < 1 || n > GPUS_MAX))
        return error_set(err, ERR_USAGE,
                         "resize: '%s': expected a number of GPUs, 1..%d, or "
                         "any",
                         word, (int)GPUS_MAX);
    if (is_any && conf->nodes > 0)
        return error_set(err, ERR_USAGE,
                         "--nodes goes with a number of GPUs, not with any");
    json_t *o = is_any ? json_pack("{s:s}", "gpus", "any")
                       : json_pack("{s:i}", "gpus", (int)n);
    if (o && conf->nodes > 0)
        (void)json_object_set_new(o, "nodes", json_integer(conf->nodes));
    *ret = o;
    return o ? 0 : error_set(err, ERR_NOMEM, "request");
}

int admin_print_job(const json_t *job, struct error *err)
{
    json_t *o = json_pack(
        "{s:s, s:[{s:I, s:s, s:I}]}", "schema", "mgpu.admin/1", "jobs", "id",
        (json_int_t)field_int(job, "id", 0), "state", field_str(job, "state"),
        "priority", (json_int_t)field_int(job, "priority", 0));
    int rc = o ? client_print(o, err) : error_set(err, ERR_NOMEM, "reply");
    json_decref(o);
    return rc;
}

int admin_resize(struct client *c, const struct admin_resize *conf,
                 char **words, struct error *err)
{
    json_t *body = NULL, *reply = NULL;
    char path[80], safe[600];
    if (options_job_word(words[0], err) < 0 ||
        body_of(conf, words[1], &body, err) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/resize", words[0]);
    int rc = client_post(c, path, body, NULL, &reply, err);
    const json_t *job = json_object_get(reply, "job");
    /* Of this request; the job may have got another one since. */
    const char *says = field_str(reply, "says");
    if (*says == '\0')
        says = field_str(job, "reason");
    if (rc == 0 && conf->json)
        rc = admin_print_job(job, err);
    else if (rc == 0 && !conf->quiet)
        printf("job %s: %s%s%s\n", words[0], field_str(job, "state"),
               *says ? ", " : "", render_escape(says, safe, sizeof(safe)));
    json_decref(body);
    json_decref(reply);
    return rc;
}
