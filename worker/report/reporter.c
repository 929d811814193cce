/* reporter.c - see reporter.h. The HTTP client belongs to the sender's thread
 * alone; what both threads touch is behind the mutex or atomic.
 *
 * Claim and final report are in claim.c: the caller's thread posts them, when
 * no sender runs. */
#include "worker/report/reporter.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "jobs/http/http_client.h"
#include "jobs/text/text.h"
#include "jobs/wire/wire.h"
#include "worker/report/spool.h"

/* mgpu-stat looks alive at one beat per second; the rest from the spec. */
static const double period_default_s = 0.5, live_s = 1.0;
/* Limit of a request; the daemon answers in milliseconds or is in trouble. */
static const double request_s = 3.0;

struct reporter {
    char *url, *token, *dir;
    uint64_t job;
    int32_t attempt, rank;
    double heartbeat_s, period_s;

    struct spool spool;
    struct http_client *http; /* NULL: no daemon */
    pthread_t thread;
    bool has_thread, has_lock;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* ---- under the lock ---- */
    bool is_ending, is_fenced, is_flushed, is_saving;
    int64_t n_saves; /* that have ended */
    double flush_until_s;
    struct report_progress progress;
    double tokenised; /* NAN: not said */
    int64_t n_news;   /* how often it was set */
    struct report_failures failures;
    struct error why; /* of the fence */

    /* ---- the thread's ---- */
    double beat_at_s, rows_at_s;
    double since_s; /* the claim, or nearly */
    int64_t n_told; /* n_news of the last beat */
    struct buf batch, reply;
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* ---- the sender's thread --------------------------------------------------
 */

/* err  ERR_FENCED the daemon refused this attempt, whatever its word */
static int post(struct reporter *r, const char *what, const char *body,
                size_t len, struct error *err)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "/v1/attempts/%llu/%d/%s",
                   (unsigned long long)r->job, r->attempt, what);
    struct http_request req = {
        .method = "POST", .path = path, .body = body, .body_len = len};
    int status = 0;
    buf_reset(&r->reply);
    if (http_client_call(r->http, &req, &status, &r->reply, err) < 0)
        return -1;
    if (status < 400)
        return 0;
    (void)http_reply_error(status, &r->reply, err);
    if (status == 403) {
        err->code = ERR_FENCED;
        pthread_mutex_lock(&r->lock);
        r->is_fenced = true;
        r->why = *err;
        pthread_mutex_unlock(&r->lock);
    }
    return -1;
}

/* Finds "acked":N in a small object of the daemon's. */
static int read_acked(const struct buf *reply, int64_t *ret, struct error *err)
{
    const char *key = "\"acked\":";
    const char *at = strstr(buf_str(reply), key);
    char *end = NULL;
    errno = 0;
    long long n = at != NULL ? strtoll(at + strlen(key), &end, 10) : 0;
    if (at == NULL || end == at + strlen(key) || errno != 0)
        return error_set(err, ERR_INVAL, "the daemon acknowledged nothing");
    *ret = n;
    return 0;
}

/* A rank without rows asks as often as rank 0 sends heartbeats whether it may
 * still run: if an attempt was given up while its node was out of reach, only
 * the daemon can end its ranks. */
static bool may_be_quiet(const struct reporter *r)
{
    return r->rank == 0 || now_s() - r->rows_at_s < r->heartbeat_s;
}

/* Sends one batch. *ret_more: the daemon took it, and there is another. */
static int send_rows(struct reporter *r, bool *ret_more, struct error *err)
{
    int64_t offset = 0, acked = 0;
    *ret_more = false;
    if (spool_read(&r->spool, WIRE_ROWS_MAX_BYTES, &r->batch, &offset, err) < 0)
        return -1;
    if (r->batch.len == 0 && may_be_quiet(r))
        return 0;
    r->rows_at_s = now_s();
    char what[80];
    (void)snprintf(what, sizeof(what), "rows?rank=%d&offset=%lld", r->rank,
                   (long long)offset);
    if (post(r, what, buf_str(&r->batch), r->batch.len, err) < 0 ||
        read_acked(&r->reply, &acked, err) < 0 ||
        spool_ack(&r->spool, acked, err) < 0)
        return -1;
    /* The same byte again would be a loop: wait for the next period. */
    *ret_more = acked != offset && acked < atomic_load(&r->spool.end);
    return 0;
}

static int add_number(struct buf *b, const char *key, double v,
                      struct error *err)
{
    if (!isfinite(v))
        return buf_addf(b, err, ",\"%s\":null", key);
    return buf_addf(b, err, ",\"%s\":%.9g", key, v);
}

static int add_count(struct buf *b, const char *key, int64_t v,
                     struct error *err)
{
    if (v < 0)
        return buf_addf(b, err, ",\"%s\":null", key);
    return buf_addf(b, err, ",\"%s\":%lld", key, (long long)v);
}

/* All of them with each beat, for one may be lost. */
static int add_failures(struct reporter *r, struct buf *b, struct error *err)
{
    struct report_failures f;
    reporter_saves_failed(r, &f);
    for (int32_t i = 0; i < f.n; i++)
        if (buf_addstr(b, i == 0 ? ",\"saves_failed\":[" : ",", err) < 0 ||
            text_add_json(b, f.why[i], err) < 0)
            return -1;
    return f.n > 0 ? buf_addstr(b, "]", err) : 0;
}

static int send_beat(struct reporter *r, const struct report_progress *p,
                     double tokenised, bool is_saving, int64_t work,
                     struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = -1;
    if (buf_addf(&b, err, "{\"rank\":%d", r->rank) == 0 &&
        add_count(&b, "iteration", p->iteration, err) == 0 &&
        add_count(&b, "iterations_total", p->iterations_total, err) == 0 &&
        add_count(&b, "epoch", p->epoch, err) == 0 &&
        add_count(&b, "epochs_total", p->epochs_total, err) == 0 &&
        add_number(&b, "loss", p->loss, err) == 0 &&
        add_number(&b, "t_iter", p->t_iter, err) == 0 &&
        add_number(&b, "eval_loss", p->eval_loss, err) == 0 &&
        add_number(&b, "eval_accuracy", p->eval_accuracy, err) == 0 &&
        add_count(&b, "work", work, err) == 0 &&
        (isnan(tokenised) ||
         add_number(&b, "tokenised", tokenised, err) == 0) &&
        (!is_saving || buf_addstr(&b, ",\"saving\":true", err) == 0) &&
        add_failures(r, &b, err) == 0 &&
        buf_addf(&b, err, ",\"lease_s\":%.3f", now_s() - r->since_s) == 0 &&
        buf_addstr(&b, "}", err) == 0)
        rc = post(r, "heartbeat", buf_str(&b), b.len, err);
    buf_clear(&b);
    return rc;
}

/* is_last: the end has come, and what is new now is never old. */
static void beat_if_due(struct reporter *r, bool is_last)
{
    struct error err = ERROR_INIT;
    if (r->rank != 0)
        return;
    pthread_mutex_lock(&r->lock);
    struct report_progress p = r->progress;
    bool is_saving = r->is_saving;
    const double tokenised = r->tokenised;
    int64_t n_news = r->n_news;
    pthread_mutex_unlock(&r->lock);
    double past_s = now_s() - r->beat_at_s;
    bool has_news = n_news != r->n_told;
    /* Half a period early rather than half a period late. */
    bool is_due = past_s >= r->heartbeat_s - r->period_s / 2 ||
                  (has_news && past_s >= live_s - r->period_s / 2) ||
                  (has_news && is_last);
    if (is_due && send_beat(r, &p, tokenised, is_saving, n_news, &err) == 0) {
        r->beat_at_s = now_s();
        r->n_told = n_news;
    }
}

/* Sleeps for a period, or until the end begins. Returns whether it has. */
static bool rest(struct reporter *r)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    long ns = at.tv_nsec + (long)(fmod(r->period_s, 1.0) * 1e9);
    at.tv_sec += (time_t)r->period_s + ns / 1000000000L;
    at.tv_nsec = ns % 1000000000L;
    pthread_mutex_lock(&r->lock);
    int rc = 0;
    while (!r->is_ending && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&r->wake, &r->lock, &at);
    bool ending = r->is_ending;
    pthread_mutex_unlock(&r->lock);
    return ending;
}

/* Sending is over: the daemon refused, or the time to flush has passed. */
static bool is_over(struct reporter *r)
{
    pthread_mutex_lock(&r->lock);
    bool yes = r->is_fenced || (r->is_ending && now_s() >= r->flush_until_s);
    pthread_mutex_unlock(&r->lock);
    return yes;
}

static bool is_all_sent(struct reporter *r)
{
    return atomic_load(&r->spool.acked) == atomic_load(&r->spool.end);
}

static void send_all(struct reporter *r)
{
    struct error err = ERROR_INIT;
    bool more = true;
    while (more && !is_over(r))
        if (send_rows(r, &more, &err) < 0)
            return; /* away or refused: the next period tries again */
}

/* The job ends: sends the rest now, with a few tries for a daemon that is being
 * restarted. */
static void send_last(struct reporter *r)
{
    struct timespec pause = {.tv_nsec = 50000000};
    for (;;) {
        send_all(r);
        if (is_all_sent(r) || is_over(r))
            return;
        (void)nanosleep(&pause, NULL);
    }
}

static void *run(void *arg)
{
    struct reporter *r = arg;
    while (!is_over(r)) {
        beat_if_due(r, false);
        send_all(r);
        if (rest(r))
            break;
    }
    send_last(r);
    if (!is_over(r))
        beat_if_due(r, true);
    return NULL;
}

/* ---- the trainer's side ---------------------------------------------------
 */

static int copy_conf(struct reporter *r, const struct report_conf *conf,
                     struct error *err)
{
    r->url = strdup(conf->url);
    r->token = strdup(conf->token);
    r->dir = strdup(conf->dir);
    if (r->url == NULL || r->token == NULL || r->dir == NULL)
        return error_set(err, ERR_NOMEM, "reporter");
    r->job = conf->job;
    r->attempt = conf->attempt;
    r->rank = conf->rank;
    r->heartbeat_s = conf->heartbeat_s;
    r->period_s = conf->period_s > 0 ? conf->period_s : period_default_s;
    r->progress = (struct report_progress){.iteration = -1,
                                           .iterations_total = -1,
                                           .epoch = -1,
                                           .epochs_total = -1,
                                           .loss = NAN,
                                           .t_iter = NAN,
                                           .eval_loss = NAN,
                                           .eval_accuracy = NAN};
    r->tokenised = NAN;
    r->beat_at_s = r->rows_at_s = -INFINITY;
    r->since_s = now_s();
    return 0;
}

static int start_lock(struct reporter *r, struct error *err)
{
    pthread_condattr_t attr;
    if (pthread_mutex_init(&r->lock, NULL) != 0)
        return error_set(err, ERR_NOMEM, "mutex");
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&r->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (rc != 0) {
        (void)pthread_mutex_destroy(&r->lock);
        return error_set(err, ERR_NOMEM, "condition");
    }
    r->has_lock = true;
    return 0;
}

/* Signals are for the thread that trains. */
static int start_thread(struct reporter *r, struct error *err)
{
    sigset_t all, was;
    struct http_client_conf conf = {
        .url = r->url, .bearer = r->token, .timeout_s = request_s};
    if (http_client_create(&conf, &r->http, err) < 0)
        return -1;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    int rc = pthread_create(&r->thread, NULL, run, r);
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (rc != 0)
        return error_sys(err, rc, "start the sender");
    r->has_thread = true;
    return 0;
}

int reporter_create(const struct report_conf *conf, struct reporter **ret,
                    struct error *err)
{
    struct reporter *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(err, ERR_NOMEM, "reporter");
    r->spool.fd = -1;
    int64_t max = conf->max_bytes > 0 ? conf->max_bytes : SPOOL_MAX_BYTES;
    if (copy_conf(r, conf, err) < 0 || start_lock(r, err) < 0 ||
        spool_open(&r->spool, conf->dir, conf->rank, max, err) < 0 ||
        (conf->url[0] != '\0' && start_thread(r, err) < 0)) {
        reporter_destroy(r);
        return -1;
    }
    *ret = r;
    return 0;
}

void reporter_row(struct reporter *r, const struct metric_row *row)
{
    spool_add(&r->spool, row);
}

void reporter_progress(struct reporter *r, const struct report_progress *p)
{
    pthread_mutex_lock(&r->lock);
    r->progress = *p;
    r->n_news++;
    pthread_mutex_unlock(&r->lock);
}

void reporter_tokenised(struct reporter *r, double share)
{
    pthread_mutex_lock(&r->lock);
    r->tokenised = share;
    r->n_news++;
    pthread_mutex_unlock(&r->lock);
}

void reporter_saving(struct reporter *r, bool is_saving)
{
    pthread_mutex_lock(&r->lock);
    r->n_saves += r->is_saving && !is_saving;
    r->is_saving = is_saving;
    r->n_news++;
    pthread_mutex_unlock(&r->lock);
}

/* A path may have any bytes; a report is JSON. */
void reporter_save_failed(struct reporter *r, const char *why)
{
    pthread_mutex_lock(&r->lock);
    if (r->failures.n < SAVES_FAILED_MAX) {
        char *to = r->failures.why[r->failures.n++];
        (void)snprintf(to, SAVE_FAILED_CAP, "%s", why);
        for (char *p = to; *p != '\0'; p++)
            if (*p < ' ' || *p > '~')
                *p = '?';
        r->n_news++;
    }
    pthread_mutex_unlock(&r->lock);
}

void reporter_saves_failed(struct reporter *r, struct report_failures *ret)
{
    pthread_mutex_lock(&r->lock);
    *ret = r->failures;
    pthread_mutex_unlock(&r->lock);
}

void reporter_alive(struct reporter *r)
{
    pthread_mutex_lock(&r->lock);
    r->n_news++;
    pthread_mutex_unlock(&r->lock);
}

bool reporter_is_fenced(struct reporter *r, struct error *ret_why)
{
    pthread_mutex_lock(&r->lock);
    bool yes = r->is_fenced;
    if (yes && ret_why != NULL)
        *ret_why = r->why;
    pthread_mutex_unlock(&r->lock);
    return yes;
}

void reporter_stats(struct reporter *r, struct report_stats *ret)
{
    pthread_mutex_lock(&r->lock);
    int64_t saves = r->n_saves;
    pthread_mutex_unlock(&r->lock);
    *ret = (struct report_stats){.saves = saves,
                                 .rows = r->spool.rows,
                                 .dropped = r->spool.dropped,
                                 .bytes = atomic_load(&r->spool.end),
                                 .acked = atomic_load(&r->spool.acked)};
}

bool reporter_flush(struct reporter *r, double deadline_s)
{
    if (r->has_thread) {
        pthread_mutex_lock(&r->lock);
        r->is_ending = true;
        r->flush_until_s = now_s() + deadline_s;
        (void)pthread_cond_signal(&r->wake);
        pthread_mutex_unlock(&r->lock);
        (void)pthread_join(r->thread, NULL);
        r->has_thread = false;
    }
    return is_all_sent(r);
}

void reporter_destroy(struct reporter *r)
{
    if (r == NULL)
        return;
    (void)reporter_flush(r, 0);
    http_client_destroy(r->http);
    spool_close(&r->spool);
    if (r->has_lock) {
        (void)pthread_cond_destroy(&r->wake);
        (void)pthread_mutex_destroy(&r->lock);
    }
    buf_clear(&r->batch);
    buf_clear(&r->reply);
    free(r->url);
    free(r->token);
    free(r->dir);
    free(r);
}
