/* worker_report.c - the final report of an attempt's worker, as it is posted
 * and as report.json has it.
 */
#include "scheduler/ctld/ingest/worker_report.h"

#include "jobs/text/text.h"

/* -1: absent, or not within 0..max. */
static int64_t int_of(const json_t *o, const char *key, int64_t max)
{
    const json_t *v = json_object_get(o, key);
    int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    return n < 0 || n > max ? -1 : n;
}

static void take_text(const json_t *o, const char *key, char *ret, size_t cap)
{
    const char *s = json_string_value(json_object_get(o, key));
    text_fit(ret, cap, s ? s : "");
}

struct engine_failures worker_report_failures(const json_t *o)
{
    struct engine_failures f = {.n = 0};
    const json_t *list = json_object_get(o, "saves_failed");
    const char *why;
    while (f.n < ENGINE_FAILURES_MAX &&
           (why = json_string_value(json_array_get(list, (size_t)f.n))) != NULL)
        f.why[f.n++] = why;
    return f;
}

int worker_report_parse(const json_t *o, struct worker_report *ret,
                        struct error *err)
{
    int64_t code = int_of(o, "exit_code", 255);
    const json_t *stopped = json_object_get(o, "stopped");
    if (code < 0)
        return error_set(err, ERR_INVAL, "exit_code: expected 0..255");
    ret->exit_code = (int32_t)code;
    ret->extra = (struct engine_report_extra){
        .cpu_ms = int_of(o, "cpu_ms", INT64_MAX),
        .cores_ms = int_of(o, "cores_ms", INT64_MAX),
        .gpu_busy_ms = int_of(o, "gpu_busy_ms", INT64_MAX),
        .gpus_ms = int_of(o, "gpus_ms", INT64_MAX),
        .stopped = json_is_boolean(stopped) ? json_is_true(stopped) : -1,
        .needed_bytes = int_of(o, "needed_bytes", INT64_MAX),
        .available_bytes = int_of(o, "available_bytes", INT64_MAX)};
    const struct engine_failures f = worker_report_failures(o);
    ret->n_failures = f.n;
    for (int32_t i = 0; i < f.n; i++)
        text_fit(ret->failures[i], sizeof(ret->failures[i]), f.why[i]);
    take_text(o, "cause", ret->cause, sizeof(ret->cause));
    take_text(o, "why", ret->why, sizeof(ret->why));
    take_text(o, "fault_node", ret->fault_node, sizeof(ret->fault_node));
    return 0;
}

int worker_report_use(struct engine *e, uint64_t job, int32_t attempt,
                      const struct worker_report *r, struct error *err)
{
    struct engine_report_extra extra = r->extra;
    extra.cause = r->cause;
    extra.failures.n = r->n_failures;
    for (int32_t i = 0; i < r->n_failures; i++)
        extra.failures.why[i] = r->failures[i];
    return engine_report(e, job, attempt, r->exit_code, r->why, r->fault_node,
                         &extra, err);
}
