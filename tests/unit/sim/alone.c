/* alone.c - one job alone takes what the tables' own arithmetic says.
 *
 * Each application of Pollux runs on 1, 2, 4, 8 and 16 GPUs of 4-GPU nodes. The
 * expected time is computed here from the rows of the files, without the code
 * of scheduler/sim/trace.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/run/sim_run.h"
#include "scheduler/sim/trace/gz_text.h"
#include "tests/tap.h"

static const char dir[] = "tests/data/traces/pollux-osdi21/models";
enum { ROWS_MAX = 2048 };

static void stop(const struct error *err)
{
    (void)printf("Bail out! %s\n", err->msg);
    exit(1);
}

static double rows[ROWS_MAX][5]; /* of the file read last */
static int n_rows;

/* The numbers of a CSV file, below its header. */
static void read_rows(const char *app, const char *file)
{
    char path[256];
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;

    n_rows = 0;
    (void)snprintf(path, sizeof(path), "%s/%s/%s.csv.gz", dir, app, file);
    if (gz_text_read(path, &text, &err) < 0)
        stop(&err);
    char *p = strchr(text.data, '\n');
    while (p && *++p && n_rows < ROWS_MAX) {
        for (int i = 0; i < 5 && *p != '\n'; i++) {
            rows[n_rows][i] = strtod(p, &p);
            p += *p == ',';
        }
        n_rows++;
        p = strchr(p, '\n');
    }
    buf_clear(&text);
}

/* Step and synchronisation time of a placement, linear in the local batch. */
static void step_of(const char *app, const char *placement, double local,
                    double *ret_step, double *ret_sync)
{
    double id = strtod(placement, NULL), low = -1, high = INFINITY;
    double at[2][2] = {{0, 0}, {0, 0}};

    read_rows(app, "placements");
    for (int i = 0; i < n_rows; i++) {
        const double *r = rows[i];
        if (r[0] < id || r[0] > id)
            continue;
        if (r[1] <= local && r[1] > low) {
            low = r[1];
            memcpy(at[0], &r[2], sizeof(at[0]));
        }
        if (r[1] >= local && r[1] < high) {
            high = r[1];
            memcpy(at[1], &r[2], sizeof(at[1]));
        }
    }
    double x = high > low ? (local - low) / (high - low) : 0;
    *ret_step = at[0][0] + x * (at[1][0] - at[0][0]);
    *ret_sync = at[0][1] + x * (at[1][1] - at[0][1]);
}

struct app {
    const char *name;
    int epochs, batch;  /* a batch with a validation of its own */
    const int *batches; /* of all validations, the first one first */
    double max_local;
};

/* The progress after each epoch: the least of all validations. */
static void progress_of(const struct app *a, double ret[128])
{
    for (int e = 0; e < a->epochs; e++)
        ret[e] = INFINITY;
    for (const int *b = a->batches; *b; b++) {
        char file[40];
        (void)snprintf(file, sizeof(file), "validation-%d", *b);
        read_rows(a->name, file);
        for (int e = 0; e < a->epochs; e++)
            ret[e] = fmin(ret[e], rows[e][0]);
    }
}

static double expected(const struct app *a, int gpus, const char *placement)
{
    double progress[128], step, sync, t_s = 0;
    double local = ceil((double)a->batch / gpus);
    double more = ceil(local / a->max_local) - 1; /* accumulated steps */
    char file[40];

    if (gpus == 1)
        more = fmax(more, 1);
    local = ceil(local / (more + 1));
    progress_of(a, progress);
    step_of(a->name, placement, local, &step, &sync);
    (void)snprintf(file, sizeof(file), "validation-%d", a->batch);
    read_rows(a->name, file);
    for (int e = 0; e < a->epochs; e++) {
        double sqr = rows[e][3], var = rows[e][4];
        double scale = (double)a->batch / a->batches[0];
        double gain = (var + sqr) / (var / scale + sqr);
        double work = progress[e] - (e ? progress[e - 1] : 0);
        t_s += work / gain * (step + more * (step - sync));
    }
    return t_s;
}

/* From the GPUs to the end, without the 30 s of the start. */
static double simulated(const struct app *a, int gpus)
{
    struct error err = ERROR_INIT;
    struct sim_cluster cluster;
    struct sim_trace trace = {.n = 0};
    struct sim_job job = {.batch = a->batch, .gpus_min = gpus, .user = "anna"};
    struct sim_conf conf = {.cluster = &cluster,
                            .trace = &trace,
                            .request = REQUEST_TRACE,
                            .round_s = 60,
                            .restart_s = 30,
                            .limit_factor = 3,
                            .seed = 1};
    struct sim_policy policy = {.policy = policy_find("backfill")};
    struct sim_output out = {.n = 0};

    job.gpus_max = gpus;
    (void)snprintf(job.name, sizeof(job.name), "alone");
    (void)snprintf(job.class, sizeof(job.class), "%s", a->name);
    if (sim_cluster_parse("16x4", &cluster, &err) < 0 ||
        pollux_table_open(dir, false, &conf.speed, &err) < 0 ||
        conf.speed->ops->prepare(conf.speed, &job, &err) < 0 ||
        sim_trace_add(&trace, &job, &err) < 0 ||
        sim_run(&conf, &policy, &out, &err) < 0)
        stop(&err);
    double t_s = out.results[0].end_s - out.results[0].start_s - 30;
    sim_output_clear(&out);
    sim_trace_clear(&trace);
    conf.speed->ops->destroy(conf.speed);
    return t_s;
}

int main(void)
{
    static const int bert[] = {12, 24, 48, 96, 192, 384, 0};
    static const int cifar10[] = {128, 256, 512, 1024, 2048, 4096, 0};
    static const int deepspeech2[] = {20, 40, 80, 160, 320, 640, 0};
    static const int imagenet[] = {200, 400, 800, 1600, 3200, 6400, 12800, 0};
    static const int ncf[] = {256,  512,   1024,  2048, 4096,
                              8192, 16384, 32768, 0};
    static const int yolov3[] = {8, 16, 32, 64, 128, 256, 512, 0};
    static const struct app apps[] = {
        {"bert", 2, 384, bert, 12},
        {"cifar10", 100, 2048, cifar10, 1024},
        {"deepspeech2", 80, 320, deepspeech2, 80},
        {"imagenet", 90, 3200, imagenet, 200},
        {"ncf", 10, 32768, ncf, 32768},
        {"yolov3", 50, 64, yolov3, 8},
    };
    static const struct {
        int gpus;
        const char *placement;
    } sizes[] = {{1, "1"}, {2, "2"}, {4, "4"}, {8, "44"}, {16, "4444"}};

    for (size_t i = 0; i < sizeof(apps) / sizeof(apps[0]); i++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            double want = expected(&apps[i], sizes[k].gpus, sizes[k].placement);
            double got = simulated(&apps[i], sizes[k].gpus);
            ok(fabs(got - want) <= 0.005 * want,
               "%s on %d GPUs: %.1f s, the tables say %.1f s", apps[i].name,
               sizes[k].gpus, got, want);
        }
    return tap_done();
}
