/* memory.c - of a job that has come and gone nothing stays in memory.
 *
 * Jobs run through a whole daemon: swept, submitted one by one with keys,
 * claimed by a worker who sends rows; they are watched, listed and asked for
 * again. What is in use after 2,340 of them may not be more after 4,095.
 * Between these two the numbers of the jobs' events, a vector of 8 bytes for
 * each up to 65,536 that doubles (job_watch.c), do not grow.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/live.h"
#include "tests/unit/ctld/rig.h"

enum {
    SWEPT = 535,
    SINGLE = 30,
    WORKED = 20,
    ROUND = SWEPT + SINGLE + WORKED,
    ROUNDS = 7,
    HALF = 4,
    WAIT_MS = 60000,
    /* Twice what was seen: a page of 1,024 numbers more or less, and a job.
     * The smallest block for each job would be 56,160. */
    MORE = 42000,
    SMALLEST = 24, /* and malloc()'s own word */
};

static const struct alloc_node node = {.name = "n1",
                                       .gpu_type = "slot",
                                       .gpus_total = 24,
                                       .gpus_free = 24,
                                       .is_up = 1};
static struct rig r;

static void keep_one(struct ctld_conf *conf)
{
    conf->max_ended = 1;
}

/* ---- who watches ----------------------------------------------------------
 */
static void *watch(void *arg)
{
    char rest[4096];
    int fd = *(int *)arg;
    while (recv(fd, rest, sizeof(rest), 0) > 0)
        ;
    return NULL;
}

static int begin_watch(void)
{
    static const char get[] = "GET /v1/watch HTTP/1.1\r\nHost: mgpu\r\n\r\n";
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", r.socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        send(fd, get, sizeof(get) - 1, MSG_NOSIGNAL) != sizeof(get) - 1)
        exit(1);
    return fd;
}

/* ---- jobs -----------------------------------------------------------------
 */
static bool submit_sweep(int round)
{
    char key[32];
    struct buf text = BUF_INIT;
    sweep_text(&text, "swept", SWEPT);
    (void)snprintf(key, sizeof(key), "sweep-%d", round);
    bool is = call(&r, "POST", "/v1/jobs", buf_str(&text), key) == 201;
    buf_clear(&text);
    return is;
}

static bool submit_one(int round, int i)
{
    char key[32];
    (void)snprintf(key, sizeof(key), "single-%d-%d", round, i);
    return call(&r, "POST", "/v1/jobs", SPEC("single"), key) == 201;
}

static bool is_asked_for(uint64_t id)
{
    for (int ms = 0; ms < WAIT_MS; ms += 2) {
        pthread_mutex_lock(&r.alloc.lock);
        bool is = r.alloc.newest >= id;
        pthread_mutex_unlock(&r.alloc.lock);
        if (is)
            return true;
        (void)poll(NULL, 0, 2);
    }
    return false;
}

/* Claimed as soon as it is known to be granted. */
static bool claims(uint64_t id)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%d/1/claim", (int)id);
    for (int ms = 0; ms < WAIT_MS; ms += 5) {
        if (as_worker(&r, path, "{\"holder\":\"h 1 1\"}") == 200)
            return true;
        (void)poll(NULL, 0, 5);
    }
    return false;
}

static bool work_on(uint64_t id)
{
    char path[64];
    if (call(&r, "POST", "/v1/jobs", SPEC("worked"), NULL) != 201 ||
        !is_asked_for(id) || !claims(id))
        return false;
    (void)snprintf(path, sizeof(path), "%d/1/rows?rank=0&offset=0", (int)id);
    if (as_worker(&r, path,
                  "{\"iteration\":1,\"rank\":0,\"epoch\":1,\"t_iter\":0.5,"
                  "\"started_at\":1763712000.5,\"loss\":0.5}\n") != 200)
        return false;
    exits(&r, id, 0);
    return true;
}

/* Without the last words of a worker they have failed. */
static bool have_ended(int n)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "mgpu_jobs{state=\"FAILED\"} %d\n", n);
    return becomes(&r, "/metrics", text);
}

/* Of jobs that have left memory. */
static bool ask_again(int round)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d", (round - 1) * ROUND + 1);
    return get(&r, path) == 200 && get(&r, "/v1/jobs?limit=100") == 200 &&
           get(&r, "/v1/jobs/1/events") == 200 &&
           get(&r, "/v1/jobs/1/why") == 200;
}

static bool play(int round)
{
    uint64_t id = (uint64_t)round * ROUND;
    bool is = round == 0 || ask_again(round);
    r.alloc.ends_at_once = false;
    for (int i = 1; is && i <= WORKED; i++)
        is = work_on(id + (uint64_t)i);
    r.alloc.ends_at_once = true;
    is = is && submit_sweep(round);
    for (int i = 0; is && i < SINGLE; i++)
        is = submit_one(round, i);
    if (!is)
        tap_diag("round %d: %s", round, buf_str(&r.body));
    return is && have_ended((round + 1) * ROUND);
}

/* ---- what it takes --------------------------------------------------------
 */
/* The least of some time: what a reply or a row takes on its way has gone
 * again. When that is more than `most` it may take long. */
static size_t live_within(size_t most)
{
    enum { SOME = 25, EACH_MS = 20 };
    size_t least = live_bytes();
    for (int i = 0; i < SOME || (least > most && i < WAIT_MS / EACH_MS); i++) {
        (void)poll(NULL, 0, EACH_MS);
        size_t n = live_bytes();
        least = n < least ? n : least;
    }
    return least;
}

/* Without the connection of whoever asks, and what it last heard. */
static size_t live_alone(size_t most)
{
    struct http_client_conf conf = {
        .url = r.url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    http_client_destroy(r.http);
    buf_clear(&r.body);
    size_t n = live_within(most);
    if (http_client_create(&conf, &r.http, NULL) < 0)
        exit(1);
    return n;
}

static bool can_measure(void)
{
    static void *blocks[(ROUNDS - HALF) * ROUND];
    size_t n = sizeof(blocks) / sizeof(blocks[0]), before = live_bytes();
    for (size_t i = 0; i < n; i++)
        blocks[i] = malloc(SMALLEST);
    size_t after = live_bytes();
    for (size_t i = 0; i < n; i++)
        free(blocks[i]);
    return after >= before + MORE && live_bytes() <= before + MORE;
}

int main(int argc, char **argv)
{
    pthread_t watching;
    size_t some = 0;
    bool is = true;

    (void)argc;
    if (!LIVE_IS_KNOWN)
        tap_skip_all("a sanitizer's allocator");
    live_begin(argv);
    ok(can_measure(), "a small block for each job would be seen");
    rig_init(&r);
    r.tweak = keep_one;
    r.alloc.nodes = &node;
    r.alloc.n_nodes = 1;
    rig_up(&r, NULL);
    int fd = begin_watch();
    (void)pthread_create(&watching, NULL, watch, &fd);
    for (int round = 0; is && round < ROUNDS; round++) {
        is = play(round);
        if (round == HALF - 1)
            some = live_alone(SIZE_MAX);
    }
    ok(is, "%d jobs come and go", ROUNDS * ROUND);
    size_t all = live_alone(some + MORE);
    ok(all <= some + MORE, "then no more is in use than after some of them");
    tap_diag("%zu bytes, then %zu", some, all);
    rig_down(&r);
    (void)shutdown(fd, SHUT_RDWR);
    (void)pthread_join(watching, NULL);
    (void)close(fd);
    rig_clear(&r);
    return tap_done();
}
