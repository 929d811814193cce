/* recall.c - jobs that have left memory are read while the loop turns on: what
 * reads their events is never the thread of the loop, whoever asks. */
#include "tests/unit/ctld/rig.h"

enum { TASKS = 300 };

static struct rig r;
static _Atomic int n_on_loop, n_elsewhere;

static const struct store_ops *inner;

static int load_jobs(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, const struct store_event *event,
                                 struct error *err),
                     void *arg, struct error *err)
{
    if (pthread_equal(pthread_self(), r.thread))
        n_on_loop++;
    else
        n_elsewhere++;
    return inner->load_jobs(s, first, last, each, arg, err);
}

static const struct store_ops *watched(const struct store_ops *ops)
{
    static struct store_ops mine;
    inner = ops;
    mine = *ops;
    mine.load_jobs = load_jobs;
    return &mine;
}

static void keep_one(struct ctld_conf *conf)
{
    conf->max_ended = 1;
}

static bool submit_sweep(void)
{
    struct buf text = BUF_INIT;
    int rc = buf_addstr(&text,
                        "{\"spec\":{\"version\":1,\"kind\":\"command\","
                        "\"name\":\"swept\",\"command\":[\"true\"],"
                        "\"sweep\":{\"grid\":{\"env.I\":[0",
                        NULL);
    for (int i = 1; rc == 0 && i < TASKS; i++)
        rc = buf_addf(&text, NULL, ",%d", i);
    rc = rc == 0 ? buf_addstr(&text, "]}}}}", NULL) : rc;
    bool is =
        rc == 0 && call(&r, "POST", "/v1/jobs", buf_str(&text), NULL) == 201;
    buf_clear(&text);
    return is;
}

/* It has left, and somebody asks: until that was read from the archive. */
static bool is_read(const char *method, const char *path, int want,
                    const char *text)
{
    int before = n_elsewhere + n_on_loop;
    for (int i = 0; i < 3000; i++) {
        int status = call(&r, method, path, NULL, NULL);
        if (status != want || !has(&r, text)) {
            tap_diag("%s %s: %d %.200s", method, path, status,
                     buf_str(&r.body));
            return false;
        }
        if (n_elsewhere + n_on_loop > before)
            return true;
        (void)poll(NULL, 0, 20);
    }
    tap_diag("%s %s: it does not leave", method, path);
    return false;
}

int main(void)
{
    char states[64];
    rig_init(&r);
    r.tweak = keep_one;
    r.wrap_store = watched;
    rig_up(&r, NULL);
    r.alloc.ends_at_once = true;
    ok(submit_sweep(), "a sweep");
    ok(becomes(&r, "/metrics", "mgpu_jobs{state=\"FAILED\"} 300\n"),
       "all of it has ended");
    (void)snprintf(states, sizeof(states), "\"states\":{\"FAILED\":%d}", TASKS);
    ok(is_read("GET", "/v1/jobs/1", 200, states), "it is shown as a whole");
    ok(is_read("GET", "/v1/jobs/1_299", 200, "\"id\":300"), "so is a task");
    ok(is_read("POST", "/v1/jobs/1/cancel", 409, "could be cancelled"),
       "it cannot be cancelled any more");
    ok(is_read("POST", "/v1/attempts/7/1/heartbeat", 403, "over"),
       "a worker hears that its attempt is over");
    is_int(get(&r, "/v1/jobs/301"), 404, "a job that never was");
    is_int(n_on_loop, 0, "nothing of that was read by the loop");
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
