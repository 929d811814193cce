/* fake_helper.h - the Slurm allocator between a scripted helper and a clock.
 *
 * The test holds the other end of the socket: it says what
 * mgpu-slurm-helper would say, and hears the commands. Time moves only when
 * it is told to.
 */
#ifndef MGPU_TESTS_UNIT_SLURM_FAKE_HELPER_H
#define MGPU_TESTS_UNIT_SLURM_FAKE_HELPER_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "slurm/alloc.h"
#include "slurm/protocol/helper_wire.h"
#include "tests/tap.h"

#define TAG1 "mgpu:c:1:1:00000000000000aa"
#define TAG2 "mgpu:c:2:1:00000000000000bb"

static const double RECONCILE_S = 30;
/* Attempts are asked for at SINCE; slurmctld was started long before, or
 * again afterwards. */
enum { SINCE = 1795000000, UP_LONG = SINCE - 3600, UP_SINCE = SINCE + 60 };

static struct {
    struct alloc *a;
    int fd;
    struct buf in;
    struct clock_virtual clk;
    struct helper_cmd cmd; /* the last one heard */
    struct alloc_note note;
} h;

static inline void begin(void)
{
    int fds[2];
    struct error err = ERROR_INIT;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        exit(1);
    h.fd = fds[1];
    (void)fcntl(h.fd, F_SETFL, O_NONBLOCK);
    clock_virtual_init(&h.clk, 1000, 1795000000);
    struct alloc_slurm_conf conf = {.cluster = "c",
                                    .fd = fds[0],
                                    .reconcile_after_s = RECONCILE_S,
                                    .stale_s = 60,
                                    .clock = &h.clk.base};
    if (alloc_slurm_create(&conf, &h.a, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
}

static inline void end(void)
{
    helper_cmd_clear(&h.cmd);
    buf_clear(&h.in);
    h.a->ops->destroy(h.a);
    if (h.fd >= 0)
        (void)close(h.fd);
    memset(&h, 0, sizeof(h));
}

/* ---- notes ----------------------------------------------------------------
 */
static inline bool next_note(void)
{
    struct error err = ERROR_INIT;
    size_t n = 0;
    if (h.a->ops->poll(h.a, &h.note, 1, &n, &err) < 0) {
        tap_diag("poll: %s", err.msg);
        return false;
    }
    return n == 1;
}

/* The next note but INVENTORY is this one. */
static inline bool gets(enum alloc_note_kind kind, uint64_t job)
{
    while (next_note()) {
        if (h.note.kind == ALLOC_INVENTORY && kind != ALLOC_INVENTORY)
            continue;
        if (h.note.kind == kind && h.note.job == job)
            return true;
        tap_diag("note of kind %d of job %d: %s", (int)h.note.kind,
                 (int)h.note.job, h.note.why.msg);
        return false;
    }
    tap_diag("no note");
    return false;
}

static inline bool waits(uint64_t job, const char *why)
{
    if (!gets(ALLOC_WAITING, job))
        return false;
    if (strcmp(h.note.why.msg, why) == 0)
        return true;
    tap_diag("it waits for '%s'", h.note.why.msg);
    return false;
}

static inline bool exits(uint64_t job, int code, int signo,
                         enum alloc_ended_by by)
{
    if (!gets(ALLOC_EXITED, job))
        return false;
    if (h.note.exit_code == code && h.note.signal == signo &&
        h.note.ended_by == by)
        return true;
    tap_diag("exited with %d, signal %d, by %d", h.note.exit_code,
             h.note.signal, (int)h.note.ended_by);
    return false;
}

static inline bool is_lost_by(enum alloc_ended_by by, uint64_t job,
                              const char *why)
{
    if (!gets(ALLOC_LOST, job))
        return false;
    if (strcmp(h.note.why.msg, why) == 0 && h.note.ended_by == by)
        return true;
    tap_diag("lost by %d because '%s'", (int)h.note.ended_by, h.note.why.msg);
    return false;
}

static inline bool is_lost(uint64_t job, const char *why)
{
    return is_lost_by(ALLOC_BY_ITSELF, job, why);
}

static inline bool is_preempted(uint64_t job, const char *why)
{
    return is_lost_by(ALLOC_BY_PREEMPTION, job, why);
}

/* ---- commands -------------------------------------------------------------
 */
/* The next command into h.cmd. */
static inline bool next_command(void)
{
    char chunk[4096];
    ssize_t n;
    while ((n = recv(h.fd, chunk, sizeof(chunk), 0)) > 0)
        if (buf_add(&h.in, chunk, (size_t)n, NULL) < 0)
            exit(1);
    const char *line = buf_str(&h.in);
    const char *nl = strchr(line, '\n');
    struct error err = ERROR_INIT;
    if (!nl)
        return false;
    helper_cmd_clear(&h.cmd);
    if (helper_cmd_parse(line, (size_t)(nl - line), &h.cmd, &err) < 0) {
        tap_diag("%s: %s", err.msg, line);
        exit(1);
    }
    buf_drop(&h.in, (size_t)(nl - line) + 1);
    return true;
}

static inline bool hears(enum helper_op op)
{
    if (!next_command()) {
        tap_diag("no command");
        return false;
    }
    if (h.cmd.op != op)
        tap_diag("command %d, not %d", (int)h.cmd.op, (int)op);
    return h.cmd.op == op;
}

static inline bool hears_kill(const char *tag, uint32_t slurm_id)
{
    return hears(HELPER_KILL) && strcmp(h.cmd.req.tag, tag) == 0 &&
           h.cmd.slurm_id == slurm_id && h.cmd.req.uid == 1000;
}

static inline bool hears_signal(uint32_t slurm_id, int signo)
{
    return hears(HELPER_SIGNAL) && h.cmd.slurm_id == slurm_id &&
           h.cmd.signo == signo && h.cmd.req.uid == 1000;
}

/* Neither a note nor a command, except that the inventory may have changed. */
static inline bool is_quiet(void)
{
    while (next_note()) {
        if (h.note.kind == ALLOC_INVENTORY)
            continue;
        tap_diag("note of kind %d of job %d: %s", (int)h.note.kind,
                 (int)h.note.job, h.note.why.msg);
        return false;
    }
    if (!next_command())
        return true;
    tap_diag("command %d", (int)h.cmd.op);
    return false;
}

/* What was said before is heard before the time passes. */
static inline bool passes(double s)
{
    struct error err = ERROR_INIT;
    size_t n;
    if (h.a->ops->poll(h.a, &h.note, 0, &n, &err) < 0)
        return false;
    h.clk.t_s += s;
    return is_quiet();
}

/* ---- news -----------------------------------------------------------------
 */
/* One line; ' stands for ". */
static inline void says(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static inline void says(const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    text[n++] = '\n';
    if (send(h.fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        exit(1);
}

static inline void hello(int generation)
{
    says("{'ev':'hello','generation':%d,'slurm':'22.05.8'}", generation);
}

static inline void scan(void)
{
    static int seq;
    says("{'ev':'scan','seq':%d}", ++seq);
}

/* What is left out: TAG1, uid 1000, job 20, submitted at 5. */
struct shown {
    const char *tag, *state, *reason, *place;
    int uid, id, code, signal, restarts, submitted, ended, expected;
};
#define SHOWS(...) shows(&(struct shown){__VA_ARGS__})
static inline void shows(const struct shown *s)
{
    says("{'ev':'job','tag':'%s','uid':%d,'slurm_id':%d,'state':'%s',"
         "'reason':'%s','place':'%s','exit_code':%d,'signal':%d,"
         "'restarts':%d,'submitted':%d,'ended':%d,'expected':%d}",
         s->tag ? s->tag : TAG1, s->uid ? s->uid : 1000, s->id ? s->id : 20,
         s->state, s->reason ? s->reason : "", s->place ? s->place : "",
         s->code, s->signal, s->restarts, s->submitted ? s->submitted : 5,
         s->ended, s->expected);
}

/* Complete scans for as long as it takes to be sure. */
static inline void scan_for_long(void)
{
    scan();
    ok(passes(RECONCILE_S), "(complete scans, for long)");
    scan();
}

static inline void gone(const char *tag, int id)
{
    says("{'ev':'gone','tag':'%s','slurm_id':%d}", tag, id);
}

/* The answer to the last command heard. */
static inline void answers(int slurm_id)
{
    says("{'ev':'reply','id':%" PRIu64 ",'slurm_id':%d}", h.cmd.id, slurm_id);
}

static inline void answers_ended(int code, int signo, int slurm_id,
                                 int64_t ended_ms)
{
    says("{'ev':'reply','id':%" PRIu64
         ",'exit_code':%d,'signal':%d,'slurm_id':%d,'ended_ms':%" PRId64 "}",
         h.cmd.id, code, signo, slurm_id, ended_ms);
}

static inline void answers_exit(int code, int signo, int slurm_id)
{
    answers_ended(code, signo, slurm_id, 0);
}

static inline void fails(const char *code, const char *why, bool is_sure)
{
    says("{'ev':'reply','id':%" PRIu64 ",'code':'%s','why':'%s','is_sure':%s}",
         h.cmd.id, code, why, is_sure ? "true" : "false");
}

/* The next command is to read the exit file, and there is none. */
static inline bool has_no_exit(void)
{
    if (!hears(HELPER_READ_EXIT))
        return false;
    fails("NOTFOUND", "no file", true);
    return true;
}

/* Nor does accounting, if there is one, know more. */
static inline bool recalls(int booted, const char *rest)
{
    if (!hears(HELPER_RECALL))
        return false;
    says("{'ev':'reply','id':%" PRIu64 ",'booted':%d%s}", h.cmd.id, booted,
         rest);
    return true;
}

/* ---- requests -------------------------------------------------------------
 */
static inline int ask_for(const struct alloc_req *like, struct error *err)
{
    char tag[64];
    char dir[64];
    struct alloc_req req = *like;
    (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1:00000000000000%s",
                   (int)req.job, req.job == 1 ? "aa" : "bb");
    (void)snprintf(dir, sizeof(dir), "/jobs/%d/1", (int)req.job);
    req.attempt = 1;
    req.tag = tag;
    req.name = "mnist";
    req.nodes = 2;
    req.gpus_per_node = 2;
    req.uid = 1000;
    req.since = SINCE;
    req.dir = dir;
    req.worker = "/bin/worker";
    req.launch = like->launch ? like->launch : "{\"a\":1}";
    return h.a->ops->request(h.a, &req, err);
}

static inline bool ask(enum alloc_ask how, uint64_t job)
{
    struct alloc_req req = {.job = job, .ask = how};
    return ask_for(&req, NULL) == 0;
}

static inline int release(uint64_t job, double grace_s)
{
    struct error err = ERROR_INIT;
    return h.a->ops->release(h.a, job, 1, grace_s, &err) == 0 ? 0
                                                              : (int)err.code;
}

static inline bool claim(uint64_t job, const char *native_id)
{
    return h.a->ops->claimed(h.a, job, 1, native_id, NULL) == 0;
}

/* Job 1 is Slurm's job 20, and runs. */
static inline void run_one(void)
{
    begin();
    hello(1);
    bool is = is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT);
    if (is)
        answers(20);
    is = is && gets(ALLOC_WAITING, 1);
    SHOWS(.state = "RUNNING", .place = "n1:0,1 n2:0,1");
    ok(is && gets(ALLOC_GRANTED, 1), "an attempt runs");
}

/* Job 1 is under way to Slurm; h.cmd is its submit. */
static inline void submit_one(void)
{
    begin();
    hello(1);
    ok(is_quiet() && ask(ALLOC_NEW, 1) && hears(HELPER_SUBMIT), "submitted");
}

/* A life of the daemon that asks for what an earlier one may have started. */
static inline void restart(enum alloc_ask how, bool is_claimed,
                           const char *native_id)
{
    begin();
    struct alloc_req req = {
        .job = 1, .ask = how, .is_claimed = is_claimed, .native_id = native_id};
    ok(ask_for(&req, NULL) == 0 && gets(ALLOC_WAITING, 1),
       "an earlier life may have asked");
    ok(!next_command(), "nothing is done");
    hello(1);
}

#endif
