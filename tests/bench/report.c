/* report.c - what reporting costs a training loop.
 *
 *   report [rows]      100000
 *
 * Appends rows to a spool in $TMPDIR (or /tmp) as fast as it can, with the
 * sender running against a socket where nobody listens, and prints
 * microseconds per iteration; a heartbeat's progress is noted each time, as
 * the trainer does. Not a test: no number is expected. The target is 0.5 %
 * of an iteration: 50 us of one of 10 ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "worker/report/reporter.h"

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static double run(struct reporter *r, int64_t rows)
{
    struct metric_row row = {.kind = METRIC_ITERATION};
    struct report_progress p = {.epoch = 1, .epochs_total = 3, .loss = 0.5};
    double start_s = now_s();
    for (int64_t i = 1; i <= rows; i++) {
        row.iteration = (struct metric_iteration){.epoch = 1,
                                                  .iteration = i,
                                                  .started_at = 1.7e9 + 0.1,
                                                  .t_iter = 0.0312345,
                                                  .t_data = 1.234e-5,
                                                  .t_h2d = 1.5e-4,
                                                  .t_forward = 0.01456,
                                                  .t_backward = 0.02833,
                                                  .t_comm = 0.00941,
                                                  .t_optimizer = 0.00101,
                                                  .loss = 0.5 / (double)i,
                                                  .lr = 0.05,
                                                  .samples = 64,
                                                  .tokens = -1,
                                                  .gpu_mem_bytes = -1};
        reporter_row(r, &row);
        p.iteration = i;
        reporter_progress(r, &p);
    }
    return (now_s() - start_s) / (double)rows;
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct reporter *r = NULL;
    const char *tmp = getenv("TMPDIR");
    char dir[200], path[240];
    int64_t rows = argc > 1 ? strtoll(argv[1], NULL, 10) : 100000;
    (void)snprintf(dir, sizeof(dir), "%s/mgpu-bench.XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    if (rows < 1 || mkdtemp(dir) == NULL)
        return error_exit_status(ERR_USAGE);
    struct report_conf conf = {.url = "unix:/nonexistent/socket",
                               .token = "0",
                               .dir = dir,
                               .heartbeat_s = 10};
    if (reporter_create(&conf, &r, &err) < 0) {
        (void)fprintf(stderr, "report: %s\n", err.msg);
        return error_exit_status(err.code);
    }
    double each_s = run(r, rows);
    struct report_stats s;
    reporter_stats(r, &s);
    (void)printf("%.2f us per iteration, %.0f bytes; %lld rows, %lld dropped\n",
                 each_s * 1e6, (double)s.bytes / (double)s.rows,
                 (long long)s.rows, (long long)s.dropped);
    reporter_destroy(r);
    (void)snprintf(path, sizeof(path), "%s/spool.0", dir);
    (void)unlink(path);
    (void)rmdir(dir);
    return 0;
}
