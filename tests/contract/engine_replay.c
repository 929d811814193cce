/* engine_replay.c - U3: when it is said that jobs start, and when they do.
 *
 * A trace of two nodes and a day is played with the engine and the fake
 * allocator, for several seeds: programs that are started again and again,
 * each with the limit that its user always gives it, most of them training
 * that says how far it is. At its submit and each ten minutes that it waits
 * a job is asked when it starts, as mgpu-stat --why asks, and that is held
 * against when it did.
 */
#include "tests/contract/engine_world.h"

enum {
    PROGRAMS = 5,
    SAMPLES = 20000,
    SEEDS = 12,
};
static const double BEAT_S = 30; /* between two looks at the world */
static const double ASK_S = 600;

/* What was said of a job, and what came of it; on the engine's clock. NAN:
 * nothing was said. */
struct sample {
    double asked_s, start_s;
    double said_s;   /* as --why expects it, or by limits where it cannot */
    double limits_s; /* if all ended at their limits */
    int32_t job;
};

struct program {
    double run_s, limit_s;
    int32_t gpus;
    bool is_mute; /* it does not say how far it is */
};

static struct world w;
static struct world_script script = {
    .nodes = 2, .gpus_per_node = 4, .policy = &policy_backfill};
static struct program programs[PROGRAMS];
static int32_t program_of[WORLD_JOBS];
static double submit_s[WORLD_JOBS], asked_s[WORLD_JOBS];
static struct sample samples[SAMPLES];
static size_t n_samples;
static uint64_t dice;

static double uniform(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (double)(dice >> 11) / 9007199254740992.0;
}

static void make_trace(uint64_t seed)
{
    double at_s = 0;

    dice = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < PROGRAMS; i++) {
        double run_s = 600 * pow(9, uniform());
        programs[i] = (struct program){
            .run_s = run_s,
            .limit_s = ceil(run_s * (1.3 + 4 * uniform()) / 600) * 600,
            .gpus = 1 << (int)(3 * uniform()),
            .is_mute = i == 0,
        };
    }
    for (int i = 0; i < WORLD_JOBS; i++) {
        int32_t k = (int32_t)((double)PROGRAMS * uniform());
        program_of[i] = k;
        submit_s[i] = at_s;
        asked_s[i] = -INFINITY;
        at_s += -log(1 - uniform()) * 450;
        script.jobs[i] = (struct world_job){
            .gpus = programs[k].gpus,
            .attempts = {
                {.run_s = programs[k].run_s * (0.9 + 0.2 * uniform())}}};
    }
}

static void submit(int32_t i)
{
    const struct program *p = &programs[program_of[i]];
    char spec[300], key[16];
    struct error err = ERROR_INIT;

    (void)snprintf(key, sizeof(key), "k%d", i);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"p%d\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":%d,\"time_limit\":\"%.0fs\"}}",
                   program_of[i], p->gpus, p->limit_s);
    struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = key, .spec = spec};
    if (engine_submit(w.engine, &req, &w.ids[i], NULL, &err) < 0)
        world_bad(&w, err.msg, 0);
}

/* Claims, and says how far it is: steps of about ten seconds. */
static void work(const struct job *job)
{
    const struct program *p = &programs[program_of[world_index(job)]];
    const char *id = alloc_fake_native_id(w.cluster, job->id, job->attempt);
    double run_s = world_plan(&w, job, 1)->run_s;
    int64_t total = (int64_t)(run_s / 10) + 1;
    struct engine_beat beat = {
        .loss = 0.5, .t_iter = NAN, .eval_loss = 0.75, .eval_accuracy = NAN};
    struct error err = ERROR_INIT;
    char holder[80];

    if (!id)
        return;
    (void)snprintf(holder, sizeof(holder), "n1 %s", id);
    if (!job->holder[0] && engine_claim(w.engine, job->id, job->attempt,
                                        world_token(job), holder, id, &err) < 0)
        return; /* the end was faster */
    if (!p->is_mute) {
        double for_s = w.clock.t_s - (job->start_s - 1.7e9);
        beat.iteration = (int64_t)(fmin(for_s / run_s, 1) * (double)total);
        beat.iterations_total = total;
        beat.t_iter = run_s / (double)total;
    }
    if (engine_beat(w.engine, job->id, job->attempt, &beat, &err) < 0 &&
        err.code != ERR_STATE && err.code != ERR_FENCED)
        world_bad(&w, err.msg, job->id);
}

/* As scheduler/ctld answers --why: as it is expected, or else by limits. */
static void ask(const struct job *job)
{
    struct engine_start all[ENGINE_FORECASTS];
    struct sample s = {.asked_s = w.clock.t_s,
                       .start_s = NAN,
                       .limits_s = job->start_estimate_s,
                       .said_s = NAN,
                       .job = world_index(job)};
    struct error err = ERROR_INIT;
    size_t n = 0;

    if (engine_forecast(w.engine, all, &n, &err) < 0)
        world_bad(&w, err.msg, job->id);
    for (size_t k = 0; k < n; k++) {
        if (all[k].id != job->id)
            continue;
        s.said_s = all[k].expected_s;
        if (isnan(s.limits_s))
            s.limits_s = all[k].start_s;
    }
    if (isnan(s.said_s))
        s.said_s = s.limits_s;
    asked_s[s.job] = w.clock.t_s;
    if (n_samples < SAMPLES)
        samples[n_samples++] = s;
}

static void step(void)
{
    struct error err = ERROR_INIT;
    for (int i = 0; i < 4; i++) {
        if (engine_step(w.engine, &err) < 0)
            world_bad(&w, err.msg, 0);
        for (const struct job *j = engine_next_job(w.engine, 0); j;
             j = engine_next_job(w.engine, j->id))
            if (job_state_is_live(j->state) && j->native_id[0] != '\0')
                work(j);
    }
}

static bool play(uint64_t seed)
{
    size_t from = n_samples;
    int32_t next = 0, n_over = 0;

    make_trace(seed);
    world_init(&w, &script);
    if (!world_start(&w))
        return false;
    while (n_over < WORLD_JOBS && w.clock.t_s < 1000 + 10 * 86400.0) {
        for (; next < WORLD_JOBS && submit_s[next] <= w.clock.t_s - 1000;
             next++)
            submit(next);
        step();
        n_over = 0;
        for (const struct job *j = engine_next_job(w.engine, 0); j;
             j = engine_next_job(w.engine, j->id)) {
            n_over += job_state_is_final(j->state);
            if (j->state == JOB_QUEUED &&
                w.clock.t_s >= asked_s[world_index(j)] + ASK_S)
                ask(j);
        }
        double t = fmin(engine_next_s(w.engine), alloc_fake_next_s(w.cluster));
        if (next < WORLD_JOBS)
            t = fmin(t, 1000 + submit_s[next]);
        w.clock.t_s = fmax(w.clock.t_s + 0.01, fmin(t, w.clock.t_s + BEAT_S));
    }
    for (size_t i = from; i < n_samples; i++) {
        const struct job *j = engine_job(w.engine, w.ids[samples[i].job]);
        samples[i].start_s = j->start_s - 1.7e9;
    }
    ok(n_over == WORLD_JOBS, "seed %d: all have ended", (int)seed);
    is_int(w.n_bad, 0, "  nothing was odd");
    world_clear(&w);
    return true;
}

static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The share that was right but for a quarter of the time until the start, or
 * the minute below which nobody cares. */
static double judge(const char *what, bool by_limits)
{
    static double off[SAMPLES];
    size_t n = 0, n_right = 0;

    for (size_t i = 0; i < n_samples; i++) {
        const struct sample *s = &samples[i];
        double waits_s = s->start_s - s->asked_s;
        double said_s = by_limits ? s->limits_s : s->said_s;
        if (isnan(said_s))
            continue;
        n_right += fabs(said_s - s->start_s) <= fmax(0.25 * waits_s, 60);
        off[n++] = fabs(said_s - s->start_s) / fmax(waits_s, 60);
    }
    if (n == 0)
        return 0;
    qsort(off, n, sizeof(*off), up);
    double share = (double)n_right / (double)n;
    tap_diag("%s: %zu of %zu said, %.1f %% right within 25 %%; off by %.2f "
             "(median), %.2f (3 of 4), %.2f (9 of 10)",
             what, n, n_samples, 100 * share, off[n / 2], off[n * 3 / 4],
             off[n * 9 / 10]);
    return share;
}

int main(void)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        if (!play(seed))
            break;
    double expected = judge("expected", false), limits = judge("limits", true);
    size_t n_silent = 0;
    for (size_t i = 0; i < n_samples; i++)
        n_silent += isnan(samples[i].said_s) ? 1 : 0;

    ok(n_samples > 1000 && n_samples < SAMPLES, "often asked");
    is_int((long long)n_silent, 0, "  and never without an answer");
    ok(expected > 0.8, "U3: four of five are right within 25 %%");
    ok(expected > limits + 0.5, "  of which limits know little");
    return tap_done();
}
