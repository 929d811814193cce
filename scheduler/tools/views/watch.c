/* watch.c - show the queue as it changes; see watch.h.
 *
 * One subscription (GET /v1/watch) sends each job once in its present state,
 * and then its changes, at most four a second; there is no polling. The reader
 * keeps the jobs by id, and a second thread draws them on a timer, so that the
 * last change of a burst is shown even if no other follows.
 */
#include "scheduler/tools/views/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/state.h"
#include "scheduler/tools/common/elapsed.h"
#include "scheduler/tools/common/screen.h"
#include "scheduler/tools/views/top.h"

/* As in wait.c: a machine is back in minutes. */
static const double away_s = 900;
/* The initial jobs come in one burst: draw them as one picture. */
static const double begin_s = 0.2;
/* libcurl counts whole milliseconds and may end one too early: do not reconnect
 * for that, or all jobs would be sent again. */
static const double early_s = 0.005;
/* Minimum interval between requests of GPU utilisation; only while jobs
 * change. */
static const double gpus_s = 5;
/* Maximum age of the summary, if the subscription does not include all jobs. */
static const double head_s = 5;
/* Time-out of that request: nothing is drawn meanwhile. */
static const double head_patience_s = 2;
/* While the daemon is away, each failed attempt to connect is noted: after this
 * time without one, the connection is back. */
static const double back_s = 1;
static const char head_path[] = "/v1/jobs?limit=1&fields=id";

struct watch {
    const struct watch_conf *conf;
    struct client *client;
    double since_s; /* jobs that ended earlier are not shown */
    json_t *told;   /* with line output: ids of listed jobs that had ended,
                       which the stream may repeat at its beginning */
    json_t *alive;  /* with line output: ids of jobs that were shown as live */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* ---- under the lock ---- */
    json_t *jobs; /* by id as text: the jobs to show */
    json_t *gpus; /* for --top: mgpu.gpus/1, as of gpus_at_s */
    double gpus_at_s;
    json_t *head; /* mgpu.queue/1 without jobs: from the start, or, if the
                     subscription does not include all jobs, as of head_at_s */
    double head_at_s, away_at_s;
    int64_t alien; /* GPUs that others than the daemon's jobs use */
    bool is_new, is_away, is_ending;
    bool is_going;     /* a displayed time advances */
    int columns, rows; /* of the terminal; 0: not a terminal */
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* ---- which jobs ----------------------------------------------------------
 */

static bool is_final(const json_t *job)
{
    enum job_state s = JOB_NEW;
    return job_state_from_name(field_str(job, "state"), &s) == 0 &&
           job_state_is_final(s);
}

/* in  was  it was shown before, so its end is shown, however long ago that
 *      was */
static bool fits(const struct watch *w, const json_t *job, bool was)
{
    bool is_past = is_final(job) && field_time(job, "ended") < w->since_s;
    return job_query_now(&w->conf->filter, job) && (was || !is_past);
}

static void key_of(const json_t *job, char out[24])
{
    (void)snprintf(out, 24, "%" PRId64, field_int(job, "id", 0));
}

static void keep(struct watch *w, json_t *job)
{
    char key[24];
    key_of(job, key);
    pthread_mutex_lock(&w->lock);
    bool was = json_object_get(w->jobs, key) != NULL;
    bool is = fits(w, job, was);
    elapsed_note(job, now_s());
    if (is)
        (void)json_object_set(w->jobs, key, job);
    else if (was)
        (void)json_object_del(w->jobs, key);
    w->is_new = w->is_new || was || is;
    w->is_away = false;
    pthread_mutex_unlock(&w->lock);
}

static int say(struct watch *w, const char *text, size_t len, struct error *err)
{
    FILE *out = w->conf->show.out;
    if (fwrite(text, 1, len, out) == len && fputc('\n', out) != EOF &&
        fflush(out) == 0)
        return 0;
    return error_set(err, ERR_IO, "write to standard output: %s",
                     strerror(errno));
}

/* Whether the job was listed as ended already; asked once, because a job may be
 * live again. */
static bool was_told(struct watch *w, const json_t *job)
{
    char key[24];
    key_of(job, key);
    bool is = json_object_get(w->told, key) != NULL;
    if (is)
        (void)json_object_del(w->told, key);
    return is && is_final(job);
}

/* Whether a line has shown the job as live, so that its end is shown, too. */
static bool was_alive(struct watch *w, const json_t *job)
{
    char key[24];
    key_of(job, key);
    bool was = json_object_get(w->alive, key) != NULL;
    if (is_final(job))
        (void)json_object_del(w->alive, key);
    else if (!was)
        (void)json_object_set_new(w->alive, key, json_true());
    return was;
}

static int tell_ended(struct watch *w, json_t *job, struct error *err)
{
    const char *id = field_str(job, "display_id");
    char key[24];
    if (!w->conf->json && !w->conf->ids) {
        keep(w, job);
        return 0;
    }
    key_of(job, key);
    (void)json_object_set_new(w->told, key, json_true());
    if (w->conf->ids)
        return say(w, id, strlen(id), err);
    json_t *o = json_pack("{s:s, s:O}", "schema", "mgpu.job/1", "job", job);
    char *text =
        o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    int rc = text ? say(w, text, strlen(text), err)
                  : error_set(err, ERR_NOMEM, "job");
    free(text);
    json_decref(o);
    return rc;
}

/* The stream begins with the jobs in the daemon's memory. Jobs that ended
 * before are requested as a list, if the filter includes them. */
static int read_ended(struct watch *w, struct error *err)
{
    struct buf query = BUF_INIT;
    json_t *list = NULL, *job;
    size_t i;
    if (w->conf->top || !job_query_wants_ended(&w->conf->filter))
        return 0;
    int rc = filter_query(&w->conf->filter, &query, err);
    if (rc == 0)
        rc = client_get(w->client, &list, err, "/v1/jobs?limit=%llu%s",
                        w->conf->most, buf_str(&query));
    json_array_foreach(json_object_get(list, "jobs"), i, job)
    {
        if (rc == 0 && is_final(job))
            rc = tell_ended(w, job, err);
    }
    buf_clear(&query);
    json_decref(list);
    return rc;
}

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct watch *w = arg;
    json_error_t why;
    json_t *o = json_loadb(text, len, 0, &why);
    if (!o)
        return error_set(err, ERR_EXTERN, "watch: not JSON: %s", why.text);
    json_t *job = json_object_get(o, "job");
    int rc = 0;
    const char *id = field_str(job, "display_id");
    if (!w->conf->json && !w->conf->ids && job)
        keep(w, job);
    else if (fits(w, job, was_alive(w, job)) && !was_told(w, job))
        rc = w->conf->json ? say(w, text, len, err)
                           : say(w, id, strlen(id), err);
    json_decref(o);
    return rc;
}

/* ---- the picture ---------------------------------------------------------
 */

static int by_id(const void *a, const void *b)
{
    int64_t x = field_int(*(json_t *const *)a, "id", 0);
    int64_t y = field_int(*(json_t *const *)b, "id", 0);
    return (x > y) - (x < y);
}

static json_t *in_order(json_t *jobs)
{
    size_t n = json_object_size(jobs), i = 0;
    json_t **v = calloc(n + 1, sizeof(json_t *)), *list = json_array(), *job;
    const char *key;
    json_object_foreach(jobs, key, job)
    {
        if (v)
            v[i++] = job;
    }
    if (v)
        qsort(v, i, sizeof(json_t *), by_id);
    for (size_t k = 0; v && k < i; k++)
        (void)json_array_append(list, v[k]);
    free(v);
    return list;
}

static bool sees_all(const struct watch *w)
{
    return job_query_is_any(&w->conf->filter);
}

/* Counts the jobs: with a subscription to all jobs, no request is needed. */
static void count(const struct watch *w, json_t *o)
{
    int64_t running = 0, queued = 0, held = 0, busy = w->alien;
    const char *key;
    json_t *job;
    json_object_foreach(w->jobs, key, job)
    {
        enum job_state s = JOB_NEW;
        (void)job_state_from_name(field_str(job, "state"), &s);
        running += job_state_is_live(s) && !job_state_is_pending(s);
        queued += job_state_is_pending(s);
        held += s == JOB_HELD;
        busy += job_state_is_live(s) ? field_int(job, "gpus", 0) : 0;
    }
    (void)json_object_set_new(o, "running", json_integer(running));
    (void)json_object_set_new(o, "queued", json_integer(queued));
    (void)json_object_set_new(o, "held", json_integer(held));
    (void)json_object_set_new(
        o, "slots_free", json_integer(field_int(o, "slots_total", 0) - busy));
}

/* mgpu.queue/1 as the daemon would send it now, with the visible jobs. */
static json_t *picture(struct watch *w)
{
    json_t *o = json_copy(w->head), *jobs = in_order(w->jobs), *job;
    size_t i;
    w->is_going = false;
    json_array_foreach(jobs, i, job)
    {
        w->is_going = elapsed_by(job, now_s()) || w->is_going;
    }
    if (sees_all(w))
        count(w, o);
    (void)json_object_set_new(o, "jobs", jobs);
    return o;
}

static int draw_top(const struct watch *w, const struct show_conf *s,
                    const json_t *queue)
{
    struct show_conf conf = *s;
    json_t *top = NULL;
    int rc = top_document(queue, w->gpus, !job_query_is_any(&w->conf->filter),
                          &top, NULL);
    conf.style.rows = w->rows;
    if (rc == 0)
        rc = show_top(&conf, top, NULL);
    json_decref(top);
    return rc;
}

static void draw_text(const struct watch *w, const struct show_conf *s,
                      const json_t *o)
{
    struct tm tm;
    time_t t = time(NULL);
    char clock[32];
    (void)localtime_r(&t, &tm);
    (void)strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    if (s->header)
        (void)fprintf(s->out, "%s%s\n", clock,
                      w->is_away ? "  the daemon is away" : "");
    if ((w->conf->top ? draw_top(w, s, o) : show_queue(s, o, NULL)) < 0)
        (void)fputs("no memory\n", s->out);
}

/* Exits from here: the other thread may wait for days for a line. */
static _Noreturn void unwritable(int code)
{
    (void)fprintf(stderr, "mgpu-stat: write to standard output: %s\n",
                  strerror(code));
    _exit(error_exit_status(ERR_IO));
}

static void draw(struct watch *w)
{
    struct show_conf s = w->conf->show;
    FILE *out = s.out;
    json_t *o = picture(w);
    char *text = NULL;
    size_t len = 0;
    FILE *mem = s.style.columns > 0 ? open_memstream(&text, &len) : NULL;
    s.style.columns = mem ? w->columns : 0;
    s.out = mem ? mem : out;
    draw_text(w, &s, o);
    if (mem && fclose(mem) == 0)
        screen_put(text, w->columns, w->rows, out);
    else
        (void)fputc('\n', out);
    bool is_out = fflush(out) == 0 && !ferror(out);
    if (!is_out && !w->conf->top) /* --top restores the terminal itself */
        unwritable(errno);
    free(text);
    json_decref(o);
}

/* Whether the size of the terminal has changed. */
static bool is_resized(struct watch *w)
{
    struct render_style now;
    render_style_init(&now, w->conf->show.out);
    bool is = now.columns != w->columns || now.rows != w->rows;
    w->columns = now.columns;
    w->rows = now.rows;
    return is;
}

/* False at the end. */
static bool rest(struct watch *w, double s)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    long ns = at.tv_nsec + (long)((s - floor(s)) * 1e9);
    at.tv_sec += (time_t)floor(s) + ns / 1000000000L;
    at.tv_nsec = ns % 1000000000L;
    int rc = 0;
    while (!w->is_ending && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&w->wake, &w->lock, &at);
    return !w->is_ending;
}

/* Called by the drawing thread: the reader uses the connection of the stream.
 * If the request fails, it is repeated later. */
static void read_gpus(struct watch *w)
{
    json_t *gpus = NULL;
    if (!w->conf->top || w->is_away || now_s() - w->gpus_at_s < gpus_s)
        return;
    pthread_mutex_unlock(&w->lock);
    int rc = top_read_gpus(w->client, &gpus, NULL);
    pthread_mutex_lock(&w->lock);
    w->gpus_at_s = now_s();
    if (rc < 0)
        return;
    json_decref(w->gpus);
    w->gpus = gpus;
}

/* Keeps only the members that the picture uses. */
static void trim_head(json_t *head)
{
    (void)json_object_del(head, "jobs");
    (void)json_object_del(head, "generated");
}

/* If the subscription does not include all jobs, requests the summary of all:
 * with each picture, and otherwise now and then. True if it has changed. */
static bool read_others(struct watch *w, bool is_due)
{
    json_t *head = NULL;
    if (sees_all(w) || (!is_due && now_s() - w->head_at_s < head_s))
        return false;
    pthread_mutex_unlock(&w->lock);
    int rc = client_get(w->client, &head, NULL, "%s", head_path);
    pthread_mutex_lock(&w->lock);
    w->head_at_s = now_s();
    if (rc < 0)
        return false;
    trim_head(head);
    bool is_back = w->is_away && now_s() - w->away_at_s > back_s;
    bool is_other = is_back || !json_equal(head, w->head);
    w->is_away = w->is_away && !is_back; /* a quiet subscription gets no line
                                            that would reset it */
    json_decref(w->head);
    w->head = head;
    return is_other;
}

/* The user quits, or a signal arrives: takes the lock, so that nothing is drawn
 * any more. */
static void on_end(void *arg, int signo)
{
    struct watch *w = arg;
    pthread_mutex_lock(&w->lock);
    screen_leave();
    screen_exit(signo);
}

static void update(struct watch *w)
{
    bool is_due = is_resized(w) || w->is_new;
    w->is_new = false; /* changes during the request are drawn next time */
    if (is_due)
        read_gpus(w);
    /* Update the displayed times in place; elsewhere than on a terminal, that
     * would print the picture again. */
    if (read_others(w, is_due) || is_due || (w->is_going && w->columns > 0))
        draw(w);
}

static void *draw_all(void *arg)
{
    struct watch *w = arg;
    pthread_mutex_lock(&w->lock);
    for (bool go = rest(w, begin_s); go; go = rest(w, w->conf->every_s))
        update(w);
    if (w->is_new)
        update(w);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the subscription ----------------------------------------------------
 */

static void say_away(struct watch *w, bool away)
{
    pthread_mutex_lock(&w->lock);
    w->is_new = w->is_new || w->is_away != away;
    w->is_away = away;
    w->away_at_s = now_s();
    pthread_mutex_unlock(&w->lock);
}

static int follow(struct client *c, struct watch *w, const char *path,
                  struct error *err)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    double away_since = NAN, started_s = now_s();
    for (;;) {
        double left = w->conf->timeout_s - (now_s() - started_s);
        struct error why = ERROR_INIT;
        if (w->conf->timeout_s > 0 && left <= early_s)
            return 0;
        int rc = client_stream(c, path, w->conf->timeout_s > 0 ? left : 0,
                               on_line, w, &why);
        if (rc < 0 && why.code == ERR_TIMEOUT)
            continue;
        if (rc < 0 && why.code != ERR_UNAVAIL && why.code != ERR_BUSY &&
            (why.code != ERR_IO || errno == EPIPE ||
             ferror(w->conf->show.out))) { /* not an error of the daemon, for
                                              example a full disk */
            if (err)
                *err = why;
            return -1;
        }
        away_since = rc == 0 || !isfinite(away_since) ? now_s() : away_since;
        say_away(w, true);
        if (now_s() - away_since > away_s)
            return error_set(err, ERR_UNAVAIL,
                             "the daemon has been away for %.0f s: %s",
                             now_s() - away_since, why.msg);
        (void)nanosleep(&pause, NULL);
    }
}

/* Requests the summary of the cluster, and counts the GPUs of other users. */
static int read_head(struct client *c, struct watch *w, struct error *err)
{
    json_t *job;
    size_t i;
    if (client_get(c, &w->head, err, "%s",
                   sees_all(w) ? "/v1/jobs?state=RUNNING,STARTING,"
                                 "DISPATCHING,UNKNOWN,CHECKPOINTING,"
                                 "STALLED"
                               : head_path) < 0)
        return -1;
    w->alien = field_int(w->head, "slots_total", 0) -
               field_int(w->head, "slots_free", 0);
    json_array_foreach(json_object_get(w->head, "jobs"), i, job)
    {
        w->alien -= field_int(job, "gpus", 0);
    }
    w->alien = w->alien > 0 ? w->alien : 0;
    trim_head(w->head);
    return 0;
}

static int stream_path(const struct watch_conf *conf, struct buf *ret,
                       struct error *err)
{
    struct buf query = BUF_INIT;
    int rc = job_query_stream_query(&conf->filter, &query, err);
    if (rc == 0) /* a query begins with '&' */
        rc = buf_addf(ret, err, "/v1/watch%s%s", query.len ? "?" : "",
                      query.len ? buf_str(&query) + 1 : "");
    buf_clear(&query);
    return rc;
}

static int watch_init(struct watch *w, struct client *c,
                      const struct watch_conf *conf, struct error *err)
{
    pthread_condattr_t attr;
    *w = (struct watch){.conf = conf,
                        .client = c,
                        .jobs = json_object(),
                        .told = json_object(),
                        .alive = json_object(),
                        .since_s = -INFINITY,
                        .gpus_at_s = -INFINITY,
                        .is_new = true};
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (!w->jobs || !w->told || !w->alive)
        return error_set(err, ERR_NOMEM, "watch");
    if (conf->filter.since &&
        job_query_time("since", conf->filter.since, &w->since_s, err) < 0)
        return -1;
    return read_head(c, w, err);
}

static void watch_clear(struct watch *w)
{
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->lock);
    json_decref(w->jobs);
    json_decref(w->told);
    json_decref(w->alive);
    json_decref(w->gpus);
    json_decref(w->head);
}

static int start_drawing(struct watch *w, pthread_t *ret, struct error *err)
{
    if (w->conf->top && screen_enter(w->conf->show.out, on_end, w, err) < 0)
        return -1;
    int code = pthread_create(ret, NULL, draw_all, w);
    return code ? error_sys(err, code, "start a thread") : 0;
}

int watch_queue(struct client *c, const struct watch_conf *conf,
                struct error *err)
{
    struct watch w;
    pthread_t drawer;
    struct buf path = BUF_INIT;
    int rc = watch_init(&w, c, conf, err);
    if (rc == 0) /* uses the connection that later belongs to the drawing
                    thread */
        rc = read_ended(&w, err);
    bool draws = rc == 0 && !conf->json && !conf->ids;
    if (draws)
        rc = client_patience(c, head_patience_s, err);
    if (draws && rc == 0)
        rc = start_drawing(&w, &drawer, err);
    draws = draws && rc == 0;
    if (rc == 0)
        rc = stream_path(conf, &path, err);
    if (rc == 0)
        rc = follow(c, &w, buf_str(&path), err);
    if (draws) {
        pthread_mutex_lock(&w.lock);
        w.is_ending = true;
        (void)pthread_cond_signal(&w.wake);
        pthread_mutex_unlock(&w.lock);
        (void)pthread_join(drawer, NULL);
    }
    screen_leave();
    watch_clear(&w);
    buf_clear(&path);
    return rc;
}
