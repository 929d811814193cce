/* job_json.c - F36: the times that are shown of a job whose clock was
 * set. */
#include <math.h>
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_json.h"
#include "tests/tap.h"

static const double START_S = 1e9, DAY_S = 86400, LIMIT_S = 60;

/* Of a job that began at START_S. own  ret: buf_clear() */
static void show(struct ctld *c, const struct job *j, struct buf *ret)
{
    uint64_t set = 0;
    struct error err = ERROR_INIT;
    buf_reset(ret);
    if (job_json_members("elapsed_s,left_s", &set, &err) < 0 ||
        job_json_add(c, j, true, set, ret, &err) < 0)
        tap_diag("%s", err.msg);
}

int main(void)
{
    struct clock_virtual clock;
    struct ctld *c = calloc(1, sizeof(*c));
    struct job j = {.state = JOB_RUNNING,
                    .start_s = START_S,
                    .end_s = NAN,
                    .limit_s = LIMIT_S,
                    .attempt_limit_s = LIMIT_S};
    struct buf text = BUF_INIT;
    if (!c)
        abort();
    c->parts.clock = &clock.base;

    clock_virtual_init(&clock, 0, START_S + 15);
    show(c, &j, &text);
    is_str(buf_str(&text), "{\"elapsed_s\":15.0,\"left_s\":45.0}",
           "the clock was not set");
    clock_virtual_init(&clock, 0, START_S + DAY_S);
    show(c, &j, &text);
    is_str(buf_str(&text), "{\"elapsed_s\":86400.0,\"left_s\":0.0}",
           "it was set forth by a day");
    clock_virtual_init(&clock, 0, 0);
    show(c, &j, &text);
    is_str(buf_str(&text), "{\"elapsed_s\":0.0,\"left_s\":60.0}",
           "it was set back to 1970");
    j.state = JOB_COMPLETED;
    j.end_s = START_S - DAY_S;
    show(c, &j, &text);
    is_str(buf_str(&text), "{\"elapsed_s\":0.0}", "and the job ended then");
    j.state = JOB_QUEUED;
    j.start_s = j.end_s = NAN;
    show(c, &j, &text);
    is_str(buf_str(&text), "{}", "what has not begun has no such times");
    buf_clear(&text);
    free(c);
    return tap_done();
}
