/* alloc_shepherd.h - what the tests of the local allocator share beside the
 * rig: its shepherds, and what ranks leave in files. */
#ifndef MGPU_TESTS_CONTRACT_ALLOC_SHEPHERD_H
#define MGPU_TESTS_CONTRACT_ALLOC_SHEPHERD_H

#include "slurm/launch/attempt_dir.h"
#include "tests/contract/alloc_rig.h"

/* Never -1 or 0, which kill(2) takes for everybody: without a shepherd there
 * is nothing left to test. */
static inline pid_t shepherd_of(const struct rig *r, uint64_t job)
{
    struct attempt_pid p = {.pid = 0};
    struct error err = ERROR_INIT;
    if (attempt_pid_read(rig_path(r, job, NULL), &p, &err) < 0 || p.pid <= 1) {
        printf("Bail out! no shepherd of job %d: %s\n", (int)job, err.msg);
        exit(1);
    }
    return p.pid;
}

/* And waits until it is dead. */
static inline bool kill_shepherd(const struct rig *r, uint64_t job)
{
    pid_t pid = shepherd_of(r, job);
    uint64_t ticks;
    if (kill(pid, SIGKILL) < 0)
        return false;
    for (int i = 0; i < 6000; i++) {
        if (proc_start_ticks(pid, &ticks, NULL) < 0)
            return true;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

/* Everything that job started, by its mark; -1 when it cannot be told. */
static inline int n_marked(const struct rig *r, uint64_t job)
{
    char entry[PATH_MAX + sizeof(ATTEMPT_MARK)];
    struct error err = ERROR_INIT;
    (void)snprintf(entry, sizeof(entry), "%s=%s", ATTEMPT_MARK,
                   rig_path(r, job, NULL));
    return proc_signal_marked(entry, UINT64_MAX, 0, &err);
}

static inline bool starts(struct rig *r, uint64_t job, int32_t gpus,
                          const struct behaviour *b, int n_ready)
{
    return rig_ask(r, job, gpus, b) == 0 && rig_gets(r, job, ALLOC_GRANTED) &&
           rig_ready(r, job, n_ready);
}

/* Whether one of the attempt's files has `text`. */
static inline bool rig_has(const struct rig *r, uint64_t job, const char *file,
                           const char *text)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    bool has = buf_read_file(&b, rig_path(r, job, file), 100000, &err) == 0;
    has = has && strstr(buf_str(&b), text);
    buf_clear(&b);
    return has;
}

#endif
