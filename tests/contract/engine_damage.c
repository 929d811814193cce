/* engine_damage.c - F26: events that cannot be read. Their job is set apart,
 * the others go on, and nothing is lost that could be mended.
 *
 * Job 1 runs, job 2 is the one whose events are damaged while no daemon runs,
 * job 3 waits for the devices that job 2 holds.
 */
#include "tests/contract/engine_queue.h"

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100}}},
             {.gpus = 3, .attempts = {{.run_s = INFINITY}}},
             {.gpus = 3, .attempts = {{.run_s = 10}}}},
};

static struct world w;
static struct error err;

/* ---- a store whose log is damaged -------------------------------------------
 */
/* One event of job 2 reads otherwise than it was written. */
struct damage {
    const char *what, *detail;
    const char *says; /* in the reason */
    uint64_t to;      /* the job or the attempt */
    enum job_event at, ev;
    enum { SET_NOTHING, SET_EVENT, SET_DETAIL, SET_ATTEMPT, SET_JOB } set;
    bool has_name; /* what the submit said is known */
};
static const struct damage *now; /* NULL: the log is whole */

struct bad_store {
    struct store base;
    struct store *inner;
};

static struct store *inner_of(struct store *s)
{
    return ((struct bad_store *)s)->inner;
}

struct reading {
    int (*each)(void *arg, const struct store_event *ev, struct error *err);
    void *arg;
};

static int read_one(void *arg, const struct store_event *ev, struct error *why)
{
    const struct reading *r = arg;
    struct store_event e = *ev;
    if (now && e.job == 2 && e.ev == now->at) {
        if (now->set == SET_EVENT)
            e.ev = now->ev;
        else if (now->set == SET_DETAIL)
            e.detail = now->detail;
        else if (now->set == SET_ATTEMPT)
            e.attempt = (int32_t)now->to;
        else if (now->set == SET_JOB)
            e.job = now->to;
    }
    return r->each(r->arg, &e, why);
}

static int bad_load(struct store *s,
                    int (*each)(void *arg, const struct store_event *ev,
                                struct error *why),
                    void *arg, struct error *why)
{
    struct store *in = inner_of(s);
    struct reading r = {.each = each, .arg = arg};
    return in->ops->load(in, read_one, &r, why);
}

static int bad_append(struct store *s, const struct store_batch *b,
                      struct error *why)
{
    return inner_of(s)->ops->append(inner_of(s), b, why);
}

static int bad_past(struct store *s, struct store_past *ret, struct error *why)
{
    return inner_of(s)->ops->past(inner_of(s), ret, why);
}

static void bad_destroy(struct store *s)
{
    if (!s)
        return;
    inner_of(s)->ops->destroy(inner_of(s));
    free(s);
}

static struct store *make_bad(struct store *inner)
{
    static const struct event_store_ops ops = {.name = "bad",
                                               .append = bad_append,
                                               .load = bad_load,
                                               .past = bad_past,
                                               .destroy = bad_destroy};
    struct bad_store *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->base.ops = &ops;
    s->inner = inner;
    return &s->base;
}

/* ---- play ------------------------------------------------------------------
 */
static void play(double s)
{
    world_play(&w, s);
}

static const struct job *job(uint64_t id)
{
    return engine_job(w.engine, id);
}

static uint64_t submit(int k, const char *more)
{
    char spec[300], key[8];
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k%d", k);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j%d\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":%d},\"retry\":{\"max\":0}%s}",
                   k, script.jobs[k].gpus, more);
    struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = key, .spec = spec};
    if (engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        world_bad(&w, err.msg, 0);
    return id;
}

static void begin(const char *what)
{
    now = NULL;
    world_init(&w, &script);
    w.wrap_store = make_bad;
    ok(world_start(&w), "---- %s", what);
    (void)submit(0, "");
    (void)submit(1, "");
    play(3);
    (void)submit(2, ",\"depends_on\":[\"afterany:1\"]");
    is_int(engine_hold(w.engine, 3, 1000, true, &err), 0, "one is held");
    play(1);
}

/* It reads as job 2's row, whatever became of its submit. */
static const char *row(void)
{
    static char text[200];
    const struct store_job *job = store_mem_job(w.db, 2);
    if (!job)
        return "no row";
    (void)snprintf(text, sizeof(text), "%s %s %s", job->state, job->name,
                   job->idempotency_key);
    return text;
}

static bool is_refused(int rc)
{
    return rc < 0 && err.code == ERR_STATE && strstr(err.msg, "is damaged");
}

static void test_one(const struct damage *d)
{
    size_t n_stray;

    begin(d->what);
    is_int(job(2)->state, JOB_RUNNING, "it runs");
    now = d;
    world_die(&w);
    is_int((long long)engine_corrupt(w.engine, &n_stray), 1, "one is damaged");
    is_int((long long)n_stray, d->set == SET_JOB && d->to > 1000, "  strays");
    is_int(job(2)->state, JOB_HELD, "it is held");
    is_str(job_held_name(job(2)->held_by), "corrupt", "  as corrupt");
    ok(strncmp(job(2)->reason, "Held(corrupt): event ", 21) == 0 &&
           strstr(job(2)->reason, d->says),
       "  because: %s", job(2)->reason);
    is_str(job(2)->name, d->has_name ? "j1" : "", "  its name");
    ok(is_refused(engine_hold(w.engine, 2, 0, false, &err)),
       "nobody releases it: %s", err.msg);
    ok(is_refused(engine_hold(w.engine, 2, 0, true, &err)), "  holds it");
    ok(is_refused(engine_requeue(w.engine, 2, 0, &err)), "  requeues it");
    ok(is_refused(engine_prioritise(w.engine, 2, 0, 7, &err)), "  moves it");
    is_int(engine_claim(w.engine, 2, 1, "x", "h", "", &err), -1, "its worker");
    is_int(err.code, ERR_FENCED, "  is fenced");

    is_int(engine_hold(w.engine, 3, 1000, false, &err), 0, "release another");
    play(120);
    is_int(job(1)->state, JOB_COMPLETED, "what ran ends as ever");
    is_int(job(3)->state, JOB_COMPLETED, "its devices are another's");
    is_int(alloc_fake_starts(w.cluster, 2, 1), 1, "it was not started again");
    is_str(row(), "HELD j1 k1", "its row says so");

    int64_t uid = job(2)->uid < 0 ? 0 : 1000; /* whose it was is not known */
    is_int(engine_cancel(w.engine, 2, uid, &err), 0, "it can be cancelled");
    play(2);
    is_int(job(2)->state, JOB_CANCELLED, "  which works");
    is_str(row(), "CANCELLED j1 k1", "  its row");
    world_die(&w);
    is_int(job(2)->state, JOB_CANCELLED, "  and lasts");
    is_int(job(2)->exit_code, uid ? 130 : 143, "  as any other cancel");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

#define DAMAGE(event, kind) .at = EV_##event, .set = SET_##kind
static const struct damage damages[] = {
    {"a submit without a detail", DAMAGE(SUBMIT, DETAIL),
     .says = "without its detail"},
    {"a submit that is cut short", DAMAGE(SUBMIT, DETAIL),
     .detail = "{\"spec\":{\"name\":\"j1\",\"ki", .says = "damaged"},
    {"a submit without its user", DAMAGE(SUBMIT, DETAIL),
     .detail = "{\"spec\":{},\"key\":\"k1\",\"name\":\"j1\"}",
     .says = "damaged"},
    {"a submit that waits for nonsense", DAMAGE(SUBMIT, DETAIL),
     .detail =
         "{\"spec\":{},\"user\":\"anna\",\"key\":\"k1\",\"name\":\"j1\","
         "\"kind\":\"command\",\"priority\":0,\"gpus_min\":1,\"gpus_max\":1,"
         "\"nodes_min\":1,\"nodes_max\":1,\"limit_s\":null,\"grace_s\":1.0,"
         "\"retry_max\":0,\"depends\":[\"nonsense\"]}",
     .says = "damaged"},
    {"a submit of no known kind", DAMAGE(SUBMIT, EVENT), .ev = EV_N,
     .says = "kind is unknown"},
    {"a submit that is gone", DAMAGE(SUBMIT, JOB), .to = 1ull << 40,
     .says = "its submit is missing"},
    {"an intent that is no JSON", DAMAGE(INTENT, DETAIL), .detail = "\x01\xff",
     .says = "no object", .has_name = true},
    {"an intent without its devices", DAMAGE(INTENT, DETAIL), .detail = "{}",
     .says = "without its devices", .has_name = true},
    {"an intent of another attempt", DAMAGE(INTENT, ATTEMPT), .to = 7,
     .says = "of attempt 7, not 1", .has_name = true},
    {"an intent that is a finish", DAMAGE(INTENT, EVENT), .ev = EV_FINISH,
     .says = "cannot finish", .has_name = true},
    {"a claim of no known kind", DAMAGE(CLAIM, EVENT), .ev = EV_N,
     .says = "kind is unknown", .has_name = true},
    {"a claim by nobody", DAMAGE(CLAIM, DETAIL), .detail = "{}",
     .says = "claim without a holder", .has_name = true},
    {"a claim that is another's", DAMAGE(CLAIM, JOB), .to = 1ull << 50,
     .says = "cannot run", .has_name = true},
};

/* What is over is over. */
static void test_ended(void)
{
    static const struct damage d = {
        .at = EV_CLAIM, .set = SET_DETAIL, .detail = "[]"};
    size_t n_stray;

    begin("a job that has ended");
    is_int(engine_cancel(w.engine, 2, 1000, &err), 0, "cancel it");
    play(20);
    is_int(job(2)->state, JOB_CANCELLED, "it is over");
    now = &d;
    world_die(&w);
    is_int((long long)engine_corrupt(w.engine, &n_stray), 1, "one is damaged");
    is_int(job(2)->state, JOB_CANCELLED, "it is over all the same");
    is_int(job(2)->exit_code, 130, "  as it was");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Nothing was written about it: whoever mends the log has the job back. */
static void test_mended(void)
{
    static const struct damage d = {.at = EV_SUBMIT, .set = SET_DETAIL};
    size_t n_stray;

    begin("a log that is mended");
    engine_drain(w.engine, "");
    now = &d;
    world_die(&w);
    is_int(job(2)->state, JOB_HELD, "it is held");
    now = NULL;
    world_die(&w);
    is_int((long long)engine_corrupt(w.engine, &n_stray), 0, "none is damaged");
    is_int(job(2)->state, JOB_RUNNING, "it runs");
    is_str(job(2)->name, "j1", "  with all that it had");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++)
        test_one(&damages[i]);
    test_ended();
    test_mended();
    return tap_done();
}
