/* claim.c - rank 0's claim and final report; see reporter.h.
 *
 * The holder "host pid starttime" names a process for good: a process id
 * comes back after a while, a start time with it does not. The daemon lets
 * the same holder claim twice, so that a lost answer can be asked for again.
 * Under Slurm the claim also says for which of its jobs it speaks.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/file_atomic.h"
#include "jobs/http/http_client.h"
#include "worker/report/reporter.h"

static const double request_s = 5.0, pause_first_s = 0.1, pause_max_s = 5.0;

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static void pause_for(double s)
{
    struct timespec ts = {.tv_sec = (time_t)s,
                          .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
    (void)nanosleep(&ts, NULL); /* a signal may cut it short: look again */
}

/* Field 22 of /proc/self/stat; the name in field 2 may hold anything, so
 * count from its last parenthesis. */
static int start_time(unsigned long long *ret, struct error *err)
{
    struct buf b = BUF_INIT;
    if (buf_read_file(&b, "/proc/self/stat", 4096, err) < 0) {
        buf_clear(&b);
        return -1;
    }
    const char *at = strrchr(buf_str(&b), ')');
    for (int i = 2; at != NULL && i < 22; i++)
        at = strchr(at + 1, ' ');
    char *end = NULL;
    *ret = at != NULL ? strtoull(at, &end, 10) : 0;
    bool good = at != NULL && end != at;
    buf_clear(&b);
    if (!good)
        return error_set(err, ERR_INTERNAL,
                         "/proc/self/stat has no start time");
    return 0;
}

static int post_once(const struct report_conf *conf, const char *what,
                     json_t *body, double patience_s, struct buf *reply,
                     struct error *err)
{
    struct http_client_conf hc = {
        .url = conf->url,
        .bearer = conf->token,
        .timeout_s = patience_s < request_s ? patience_s : request_s};
    struct http_client *http = NULL;
    char path[128];
    int status = 0, rc = -1;
    char *text = json_dumps(body, JSON_COMPACT);
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "%s", what);
    (void)snprintf(path, sizeof(path), "/v1/attempts/%llu/%d/%s",
                   (unsigned long long)conf->job, conf->attempt, what);
    struct http_request req = {
        .method = "POST", .path = path, .body = text, .body_len = strlen(text)};
    if (http_client_create(&hc, &http, err) == 0)
        rc = http_client_call(http, &req, &status, reply, err);
    if (rc == 0 && status >= 400)
        rc = http_reply_error(status, reply, err);
    http_client_destroy(http);
    free(text);
    return rc;
}

bool report_may_pass(enum err_code code)
{
    return code == ERR_UNAVAIL || code == ERR_TIMEOUT || code == ERR_BUSY ||
           code == ERR_LIMIT || code == ERR_INTERNAL || code == ERR_NOMEM ||
           code == ERR_IO;
}

/* A request may be repeated: the daemon knows which process holds the attempt.
 * own  *reply: buf_clear() */
static int ask_until(const struct report_conf *conf, const char *what,
                     json_t *body, double patience_s,
                     const volatile sig_atomic_t *stop, struct buf *reply,
                     struct error *err)
{
    double until_s = now_s() + patience_s, pause_s = pause_first_s;
    struct error why = ERROR_INIT;
    for (;;) {
        buf_reset(reply);
        if (post_once(conf, what, body, patience_s, reply, &why) == 0)
            return 0;
        if (!report_may_pass(why.code) || now_s() + pause_s > until_s ||
            (stop != NULL && *stop != 0))
            break;
        pause_for(pause_s);
        pause_s = pause_s * 2 < pause_max_s ? pause_s * 2 : pause_max_s;
    }
    if (err != NULL)
        *err = why;
    return -1;
}

static int post_until(const struct report_conf *conf, const char *what,
                      json_t *body, double patience_s,
                      const volatile sig_atomic_t *stop, struct error *err)
{
    struct buf reply = BUF_INIT;
    int rc = ask_until(conf, what, body, patience_s, stop, &reply, err);
    buf_clear(&reply);
    return rc;
}

/* Writes the file whole or not at all, because the daemon may read it at any
 * moment, and into the room reserved for it, so that a full disk does not
 * matter. Ranks may fail at the same moment, and only one gets the room: a rank
 * renames it to a name of its own. */
static int write_report(const struct report_conf *conf, const char *text,
                        struct error *err)
{
    struct buf reserved = BUF_INIT, mine = BUF_INIT;
    char room[32];
    (void)snprintf(room, sizeof(room), ".report.json.%d", conf->rank);
    int rc = buf_addf(&reserved, err, "%s/.report.json.new", conf->dir);
    rc = rc < 0 ? rc : buf_addf(&mine, err, "%s/%s", conf->dir, room);
    if (rc == 0) {
        (void)rename(buf_str(&reserved), buf_str(&mine));
        rc = file_atomic_put_over(conf->dir, "report.json", room, text,
                                  strlen(text), err);
    }
    buf_clear(&reserved);
    buf_clear(&mine);
    return rc;
}

/* Takes the room that the final report needs, as well as it can: one that a
 * full disk swallows would be a run for nothing. */
static void reserve_report(const char *dir)
{
    static const char blank[4096] = {0};
    struct buf path = BUF_INIT;
    int fd = -1;
    if (buf_addf(&path, NULL, "%s/.report.json.new", dir) == 0)
        fd = open(buf_str(&path), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    if (fd >= 0) {
        (void)!write(fd, blank, sizeof(blank));
        (void)close(fd);
    }
    buf_clear(&path);
}

int report_claim(const struct report_conf *conf, double patience_s,
                 const volatile sig_atomic_t *stop, struct error *err)
{
    unsigned long long started = 0;
    char host[256] = "", holder[320];
    if (start_time(&started, err) < 0)
        return -1;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(holder, sizeof(holder), "%s %ld %llu", host, (long)getpid(),
                   started);
    /* Which of two allocations for one attempt is the real one. */
    const char *native = getenv("SLURM_JOB_ID");
    if (native != NULL && native[0] == '\0')
        native = NULL;
    json_t *body =
        json_pack("{s:s,s:s*}", "holder", holder, "native_id", native);
    if (body == NULL)
        return error_set(err, ERR_NOMEM, "claim");
    int rc = post_until(conf, "claim", body, patience_s, stop, err);
    json_decref(body);
    if (rc < 0)
        return error_wrap(err, "claim");
    reserve_report(conf->dir);
    return 0;
}

static void add_failures(json_t *body, const struct report_failures *f)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < f->n; i++)
        (void)json_array_append_new(list, json_string(f->why[i]));
    (void)json_object_set_new(body, "saves_failed", list);
}

int report_final(const struct report_conf *conf, int exit_code, const char *why,
                 const char *fault_node, const struct report_extra *extra,
                 double deadline_s, struct error *err)
{
    json_t *body = json_pack("{s:i,s:s}", "exit_code", exit_code, "why", why);
    if (body != NULL && extra != NULL && extra->cores_ms > 0) {
        (void)json_object_set_new(body, "cpu_ms", json_integer(extra->cpu_ms));
        (void)json_object_set_new(body, "cores_ms",
                                  json_integer(extra->cores_ms));
    }
    if (body != NULL && extra != NULL && extra->gpus_ms > 0) {
        (void)json_object_set_new(body, "gpu_busy_ms",
                                  json_integer(extra->gpu_busy_ms));
        (void)json_object_set_new(body, "gpus_ms",
                                  json_integer(extra->gpus_ms));
    }
    if (body != NULL && extra != NULL && extra->stopped >= 0)
        (void)json_object_set_new(body, "stopped",
                                  json_boolean(extra->stopped));
    if (body != NULL && extra != NULL && extra->needed_bytes > 0) {
        (void)json_object_set_new(
            body, "cause",
            json_string(extra->refused_by_host ? "host_memory" : "memory"));
        (void)json_object_set_new(body, "needed_bytes",
                                  json_integer(extra->needed_bytes));
        (void)json_object_set_new(body, "available_bytes",
                                  json_integer(extra->available_bytes));
    }
    if (body != NULL && extra != NULL && extra->failures.n > 0)
        add_failures(body, &extra->failures);
    if (body != NULL && fault_node != NULL)
        (void)json_object_set_new(body, "fault_node", json_string(fault_node));
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    if (text == NULL) {
        json_decref(body);
        return error_set(err, ERR_NOMEM, "final report");
    }
    int rc = write_report(conf, text, err);
    free(text);
    /* Unheard is no failure: the daemon finds the file. */
    if (conf->url[0] != '\0')
        (void)post_until(conf, "report", body, deadline_s, NULL, NULL);
    json_decref(body);
    return rc;
}
