/* sealed_jobs.c - hold jobs with values of env that an older daemon sealed.
 *
 * Before mgpu refused variables that sound secret, the daemon sealed their
 * values with a key that it gave to the ranks. Nobody opens them any more, so
 * such a job cannot start. Submits bring no new ones: the list is made once,
 * after the replay, and is empty in a state directory that is not old.
 */
#include "scheduler/ctld/maintenance/sealed_jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/spec/secrets_file.h"
#include "scheduler/ctld/ctld_internal.h"

static const char why[] =
    "a value of env was sealed by an older mgpu; submit the job again, with "
    "the variable named under secrets";

/* To look for the words costs a hundredth of parsing the specification. */
static bool is_sealed(const char *spec)
{
    json_t *o = strstr(spec, SECRET_SEALED) ? json_loads(spec, 0, NULL) : NULL;
    json_t *value;
    const char *name;
    bool found = false;
    json_object_foreach(json_object_get(o, "env"), name, value)
    {
        const char *text = json_string_value(value);
        found = found || (text && secret_is_sealed(name, text));
    }
    json_decref(o);
    return found;
}

static int add(struct ctld_sealed *s, uint64_t job, struct error *err)
{
    uint64_t *jobs = realloc(s->jobs, (s->n + 1) * sizeof(*jobs));
    if (!jobs)
        return error_set(err, ERR_NOMEM, "sealed jobs");
    s->jobs = jobs;
    s->jobs[s->n++] = job;
    return 0;
}

int ctld_sealed_init(struct ctld *c, struct error *err)
{
    struct ctld_sealed *s = &c->sealed;
    for (const struct job *j = engine_next_since(c->engine, 0, INFINITY); j;
         j = engine_next_since(c->engine, j->id, INFINITY))
        if (!job_state_is_final(j->state) && j->spec && is_sealed(j->spec) &&
            add(s, j->id, err) < 0)
            return -1;
    if (s->n > 0)
        log_warn("ctld", "jobs with sealed values cannot start jobs=%zu", s->n);
    return 0;
}

void ctld_sealed_hold(struct ctld *c)
{
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < c->sealed.n; i++)
        if (engine_refuse(c->engine, c->sealed.jobs[i], why, &err) < 0)
            log_warn("ctld",
                     "cannot hold a job with sealed values job=%llu "
                     "why=\"%s\"",
                     (unsigned long long)c->sealed.jobs[i], err.msg);
}

void ctld_sealed_clear(struct ctld *c)
{
    free(c->sealed.jobs);
}
