/* rank_output.c - read the ranks' pipes, label lines, write the log; see
 * rank_output.h. */
#include "slurm/launch/rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/log/bounded_log.h"
#include "jobs/log/log_times.h"
#include "jobs/log/rank_lines.h"
#include "jobs/log/rank_pipe.h"
#include "slurm/launch/mpirun_report.h"

/* A pipe holds 64 KiB; a rank that writes to a full one blocks until we
 * read. */
enum {
    COPY_BYTES = 65536,
    HOLD_BYTES = 4096,
    DRAIN_COPIES = 64,
    EVENTS = 16,
    PIPES_MAX = 512
};
static const double HOLD_S = 0.5;

/* The launcher is source 0; the ranks follow. */
struct source {
    int fd;       /* of a rank's pipe; -1: none */
    int32_t rank; /* -1: no label */
    size_t n;     /* bytes held back */
    double since_s;
    char held[HOLD_BYTES];
};

struct outputs {
    struct bounded_log *log;
    struct log_times *times; /* NULL: it cannot be written */
    uint64_t at;             /* bytes written to the log */
    uint64_t max;            /* bytes that do not end the attempt */
    int dirfd, epoll_fd;
    bool is_plain;               /* no labels: bytes are copied unchanged */
    bool has_labels;             /* the launcher's output has labels */
    const struct source *open;   /* the source of the log's last, incomplete
                                  * line; NULL: none */
    struct mpirun_report report; /* a block in the launcher's output */
    double ruled_s;              /* since when its first line is held back */
    size_t n;                    /* number of sources */
    struct source *sources;      /* owned */
};

/* ---- write to the log -----------------------------------------------------
 */

static void put(struct outputs *o, const void *p, size_t n)
{
    if (n == 0)
        return;
    (void)bounded_log_write(o->log, p, n, NULL);
    o->at += n;
    if (o->times)
        log_times_note(o->times, o->at, clock_real.wall_s(&clock_real));
}

/* Parses srun's own label, " 3: "; returns what follows it. */
static const char *srun_label(const char *p, size_t n, int32_t *ret)
{
    size_t i = 0, digits = 0;
    int64_t rank = 0;
    while (i < n && p[i] == ' ' && i < 9)
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '9' && digits < 9; i++, digits++)
        rank = 10 * rank + (p[i] - '0');
    if (digits == 0 || i + 2 > n || p[i] != ':' || p[i + 1] != ' ')
        return NULL;
    *ret = (int32_t)rank;
    return p + i + 2;
}

/* Writes a line, or a piece of one that is too long or too old to be held
 * back. */
static void put_labelled(struct outputs *o, const struct source *s,
                         const char *p, size_t n)
{
    char label[LOGLINES_LABEL_CAP];
    int32_t rank = s->rank;
    if (n == 0)
        return;
    if (o->open != s) {
        if (o->open)
            put(o, "\n", 1);
        const char *rest =
            o->has_labels && rank < 0 ? srun_label(p, n, &rank) : NULL;
        if (rank >= 0)
            put(o, label, rank_lines_label(rank, label));
        n -= rest ? (size_t)(rest - p) : 0;
        p = rest ? rest : p;
    }
    put(o, p, n);
    o->open = n > 0 && p[n - 1] == '\n' ? NULL : s;
}

/* The same, but for mpirun's reports on ranks that failed. */
static void put_line(struct outputs *o, const struct source *s, const char *p,
                     size_t n)
{
    bool has_rule = false;
    if (s == o->sources && o->open != s && n > 0) {
        if (mpirun_report_drop(&o->report, p, n, &has_rule)) {
            o->ruled_s = clock_real.now_s(&clock_real);
            n = 0;
        }
        if (has_rule)
            put_labelled(o, s, MPIRUN_REPORT_RULE,
                         sizeof(MPIRUN_REPORT_RULE) - 1);
    }
    put_labelled(o, s, p, n);
}

/* Writes a rule after which nothing has come. */
static void put_rule(struct outputs *o)
{
    if (o->report.state != MPIRUN_REPORT_RULED)
        return;
    o->report.state = MPIRUN_REPORT_NONE;
    put_labelled(o, o->sources, MPIRUN_REPORT_RULE,
                 sizeof(MPIRUN_REPORT_RULE) - 1);
}

static void put_held(struct outputs *o, struct source *s)
{
    put_line(o, s, s->held, s->n);
    s->n = 0;
}

static void hold(struct source *s, const char *p, size_t n)
{
    if (s->n == 0)
        s->since_s = clock_real.now_s(&clock_real);
    memcpy(s->held + s->n, p, n);
    s->n += n;
}

static void take(struct outputs *o, struct source *s, const char *p, size_t n)
{
    while (n > 0) {
        const char *end = memchr(p, '\n', n);
        size_t len = end ? (size_t)(end - p) + 1 : n;
        if (o->open == s || (s->n == 0 && end)) {
            put_line(o, s, p, len);
        } else if (s->n + len > HOLD_BYTES) {
            len = HOLD_BYTES - s->n;
            hold(s, p, len);
            put_held(o, s);
        } else {
            hold(s, p, len);
            if (end)
                put_held(o, s);
        }
        p += len;
        n -= len;
    }
}

void outputs_add(struct outputs *o, const char *p, size_t n)
{
    if (o->is_plain)
        put(o, p, n);
    else
        take(o, &o->sources[0], p, n);
}

bool outputs_are_over(const struct outputs *o)
{
    return o->at > o->max;
}

/* ---- read from the pipes --------------------------------------------------
 */

/* Returns whether there may be more. */
static bool copy_one(struct outputs *o, struct source *s)
{
    static char bytes[COPY_BYTES];
    ssize_t n;
    do
        n = read(s->fd, bytes, sizeof(bytes));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        take(o, s, bytes, (size_t)n);
    return n == (ssize_t)sizeof(bytes);
}

int outputs_fd(const struct outputs *o)
{
    return o->epoll_fd;
}

void outputs_copy(struct outputs *o)
{
    struct epoll_event got[EVENTS];
    int n = o->epoll_fd < 0 ? 0 : epoll_wait(o->epoll_fd, got, EVENTS, 0);
    for (int i = 0; i < n; i++)
        (void)copy_one(o, &o->sources[got[i].data.u32]);
}

int outputs_rest(struct outputs *o)
{
    double now_s = clock_real.now_s(&clock_real), next_s = INFINITY;
    for (size_t i = 0; i < o->n; i++) {
        struct source *s = &o->sources[i];
        if (s->n > 0 && now_s - s->since_s >= HOLD_S)
            put_held(o, s);
        else if (s->n > 0)
            next_s = fmin(next_s, s->since_s + HOLD_S - now_s);
    }
    if (now_s - o->ruled_s >= HOLD_S)
        put_rule(o);
    else if (o->report.state == MPIRUN_REPORT_RULED)
        next_s = fmin(next_s, o->ruled_s + HOLD_S - now_s);
    if (o->times)
        next_s = fmin(next_s,
                      log_times_rest(o->times, clock_real.wall_s(&clock_real)));
    return isfinite(next_s) ? (int)ceil(next_s * 1e3) + 1 : -1;
}

void outputs_drain(struct outputs *o)
{
    for (size_t i = 0; i < o->n; i++)
        for (int n = 0; o->sources[i].fd >= 0 && n < DRAIN_COPIES; n++)
            if (!copy_one(o, &o->sources[i]))
                break;
    for (size_t i = 0; i < o->n; i++)
        put_held(o, &o->sources[i]);
}

/* ---- create and destroy ---------------------------------------------------
 */

static void remove_pipes(struct outputs *o)
{
    char name[RANK_PIPE_CAP];
    for (size_t i = 1; i < o->n; i++) {
        rank_pipe_name(o->sources[i].rank, name);
        if (o->sources[i].fd >= 0) {
            (void)close(o->sources[i].fd);
            (void)unlinkat(o->dirfd, name, 0);
        }
        o->sources[i].fd = -1;
    }
}

/* Opened for reading and writing: without a writer it would always be at its
 * end. */
static int make_pipe(struct outputs *o, uint32_t i)
{
    char name[RANK_PIPE_CAP];
    struct stat st;
    struct source *s = &o->sources[i];
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
    rank_pipe_name(s->rank, name);
    (void)unlinkat(o->dirfd, name, 0); /* of an earlier run */
    if (mkfifoat(o->dirfd, name, 0600) < 0)
        return -1;
    s->fd =
        openat(o->dirfd, name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (s->fd < 0 || fstat(s->fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return -1;
    return epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, s->fd, &e);
}

static bool make_pipes(struct outputs *o)
{
    o->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 1; o->epoll_fd >= 0 && i < o->n; i++)
        if (make_pipe(o, i) < 0)
            return false;
    return o->epoll_fd >= 0;
}

static int set_up(struct outputs *o, const struct outputs_conf *conf,
                  struct error *err)
{
    const struct spec_logs *logs = &conf->logs;
    int32_t here = conf->here < conf->ranks ? conf->here : conf->ranks;
    bool is_many = conf->ranks > 1 && here <= PIPES_MAX && logs->per_rank;
    o->max = logs->on_limit == ON_LIMIT_FAIL ? (uint64_t)logs->max_bytes
                                             : UINT64_MAX;
    o->n = is_many ? 1 + (size_t)here : 1;
    o->sources = calloc(o->n, sizeof(*o->sources));
    if (!o->sources)
        return error_set(err, ERR_NOMEM, "%zu outputs", o->n);
    for (size_t i = 0; i < o->n; i++) {
        o->sources[i].fd = -1;
        o->sources[i].rank = (int32_t)i - 1;
    }
    o->dirfd = open(conf->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->dirfd < 0)
        return error_sys(err, errno, "open '%s'", conf->dir);
    bool has_pipes = is_many && make_pipes(o);
    if (!has_pipes)
        remove_pipes(o);
    o->has_labels = conf->has_labels;
    o->is_plain = !has_pipes && !conf->has_labels;
    /* Before the log: a reader that finds the log finds these, too. */
    if (log_times_create(conf->dir, o->is_plain ? 0 : conf->ranks, &o->times,
                         NULL) < 0)
        o->times = NULL;
    return bounded_log_create(conf->dir, logs->max_bytes, &o->log, err);
}

int outputs_create(const struct outputs_conf *conf, struct outputs **ret,
                   struct error *err)
{
    struct outputs *o = calloc(1, sizeof(*o));
    if (!o)
        return error_set(err, ERR_NOMEM, "outputs");
    o->dirfd = o->epoll_fd = -1;
    if (set_up(o, conf, err) < 0) {
        outputs_destroy(o);
        return -1;
    }
    *ret = o;
    return 0;
}

void outputs_destroy(struct outputs *o)
{
    if (!o)
        return;
    int saved = errno;
    if (o->log)
        put_rule(o);
    if (o->sources && o->dirfd >= 0)
        remove_pipes(o);
    log_times_destroy(o->times);
    bounded_log_destroy(o->log);
    if (o->epoll_fd >= 0)
        (void)close(o->epoll_fd);
    if (o->dirfd >= 0)
        (void)close(o->dirfd);
    free(o->sources);
    free(o);
    errno = saved;
}
