/* helper_wire.h - the protocol between mgpu-ctld and mgpu-slurm-helper.
 *
 * One JSON object a line over a socketpair, at most HELPER_LINE_MAX bytes. The
 * daemon sends commands, each with an id, and gets one reply to each unless the
 * helper's child died; the helper sends news at any time.
 *
 * The helper is the only program with libslurm and, in system mode, with the
 * privilege to act for users; a compromised daemon could send it any line. So a
 * command carries data only: programs, cluster, partition rules and the script
 * come from the helper's own command line, and the parser refuses every other
 * format.
 *
 *   daemon -> helper
 *   {"op":"submit","id":7,"job":12,"attempt":1,"tag":"mgpu:c:12:1:9f..",
 *    "name":"mnist","uid":1000,"dir":"/..","launch":"{..}","nodes":2,
 *    "gpus_per_node":2,"limit_s":3600,"grace_s":120,
 *    "partition":..,"account":..,"qos":..,"constraint":..,"reservation":..,
 *    "gpu_type":..,"exclude":"n1,n2","cpus_per_gpu":4,"memory_bytes":0,"exclusive":false}
 *      Makes dir and its parents and writes launch.json, batch.json and the
 *      submission's mark there (attempt_dir.h), as the user; then submits.
 *      Strings may be null. If this user's tag was submitted before, it is
 *      not submitted again: the reply has its id. INVAL, DENIED and NOTFOUND
 *      are permanent errors; the others are temporary (BUSY: a full queue;
 *      LIMIT: of the user or the account; UNAVAIL; TIMEOUT; IO: the
 *      directory, for instance a full disk of the user; ..).
 *   {"op":"signal","id":8,"tag":"..","uid":1000,"slurm_id":20,"signo":15}
 *      To the ranks only, including SIGKILL (KILL_STEPS_ONLY): the batch
 *      step survives and writes how they ended. With "is_cancel":true the
 *      batch step also gets BATCH_CANCEL_SIGNAL, and has Slurm cancel the job
 *      when the ranks have ended.
 *   {"op":"kill","id":8,"tag":"..","uid":1000,"slurm_id":20}
 *      Ends the job, pending or running (scancel).
 *   {"op":"limit", as kill, "limit_s":60} another time limit; 0: none
 *      All three first compare tag and uid with comment and user of the job
 *      that has this id now; NOTFOUND (sure): they differ, there is none, or
 *      it has ended; STATE (sure): a signal for ranks that do not run yet.
 *   {"op":"read_exit","id":9,"uid":1000,"dir":"/.."}
 *      dir/exit, read as the user.
 *   {"op":"recall","id":9,"tag":"..","uid":1000,"name":"mnist","dir":"/..",
 *    "slurm_id":20,"since":1795000000}
 *      For a job that Slurm has forgotten: accounting's record of this user's
 *      job with the working directory dir (slurm_id 0: any id) that was
 *      submitted since then, and how long slurmctld has run.
 *   {"op":"again","id":10}
 *      The daemon had no room for some news: the child exits, and the next
 *      one reports all that it sees. No reply; those in flight are lost.
 *
 *   helper -> daemon
 *   {"ev":"hello","generation":2,"slurm":"22.05.8"}
 *      First after every start. Unanswered commands are lost: their effect is
 *      unknown. The complete state follows as news. An empty line precedes
 *      it, which terminates a line that the last child left incomplete when
 *      it died: ignore both.
 *   {"ev":"reply","id":7,"slurm_id":20}
 *   {"ev":"reply","id":7,"code":"UNAVAIL","why":"..","is_sure":true}
 *      is_sure: nothing was done. Without it: perhaps it was done.
 *   {"ev":"reply","id":9,"exit_code":0,"signal":0,"slurm_id":20,
 *    "ended_ms":1795000000500}
 *      slurm_id: of the job that wrote the file. NOTFOUND (sure): no file.
 *      "told":"CANCELLED": Slurm ended it, and why (end_cause.h).
 *      "is_ending":true: there is only that, no file.
 *      "is_other":true: an earlier submission of the attempt wrote it, not
 *      the last one; with is_ending and without "told": it had begun.
 *   {"ev":"reply","id":9,"state":"CANCELLED","reason":"by anna",
 *    "exit_code":0,"signal":15,"slurm_id":20,"has_accounting":true,
 *    "booted":1795000000,"ended":1795000000}
 *      To recall. state "": accounting has no end of it. booted: when
 *      slurmctld was started; 0: unknown, or there are several. A reply
 *      without "code" is a success; omitted keys are 0.
 *   {"ev":"job","tag":"..","uid":1000,"slurm_id":20,"state":"PENDING",
 *    "reason":"Priority","place":"n1:0,1 n2:0,1","exit_code":0,"signal":0,
 *    "restarts":0,"nice":0,"submitted":1795000000,"ended":0,"expected":0}
 *      When a job is first seen and after each change. expected: the start of
 *      a pending job; 0: not known. state is Slurm's name of the base state;
 *      "COMPLETING" until the resources are free although the base state is
 *      final. Two jobs may have the same tag, and one of them may be another
 *      user's: every user can read comments.
 *   {"ev":"gone","tag":"..","slurm_id":20}
 *      Slurm does not know it any more. A job that slurmctld lost before a
 *      scan saw it has no news at all.
 *   {"ev":"scan","seq":31}
 *      All jobs were read; the news of this scan precede it.
 *   {"ev":"nodes","nodes":[{..alloc_node..}]}   when they changed
 *   {"ev":"partition","index":0,"count":2,"name":"gpu","is_default":true,
 *    "max_minutes":1440,"max_nodes":0,"default_minutes":60,"allow_accounts":"a,b",
 *    "deny_accounts":"","allow_qos":"","deny_qos":""}
 *      All partitions, one after the other, when one has changed. 0: no
 *      limit; "": no rule, or a list that is too long.
 *   {"ev":"quota","index":0,"count":9,"kind":0,"uid":1000,"name":"lab",
 *    "partition":"","qos":"normal","is_default":true,"group":"physics",
 *    "group_is_user":false,"group_gpus":3,"group_used":2,"job_gpus":-1,
 *    "user_gpus":-1,"account_gpus":-1,"minutes_left":-1,"job_minutes":-1,
 *    "starts":0,"ends":0}   (struct alloc_quota)
 *      All, one after the other, when one has changed. Count 0: none.
 *   {"ev":"down","why":"..","since":1795000000} slurmctld does not answer
 *   {"ev":"up"}                                 it does again */
#ifndef MGPU_SLURM_PROTOCOL_HELPER_WIRE_H
#define MGPU_SLURM_PROTOCOL_HELPER_WIRE_H

#include "jobs/base/buf.h"
#include "slurm/alloc.h"
#include "slurm/launch/attempt_dir.h"

enum {
    HELPER_LINE_MAX = 8 << 20, /* room for thousands of nodes in one line */
    HELPER_TAG_CAP = 160,
    HELPER_DIR_CAP = 512,
    HELPER_RPC_FD = 3, /* the helper inherits these */
    HELPER_FILES_FD = 4
};

enum helper_op {
    HELPER_SUBMIT,
    HELPER_SIGNAL,
    HELPER_KILL,
    HELPER_LIMIT,
    HELPER_READ_EXIT,
    HELPER_RECALL,
    HELPER_AGAIN
};

struct helper_cmd {
    enum helper_op op;
    uint64_t id;
    struct alloc_req req; /* SUBMIT; without worker. READ_EXIT: uid, dir.
                           * SIGNAL, KILL: tag, uid. RECALL: tag, uid, name,
                           * dir, since. Strings are borrowed */
    uint32_t slurm_id;    /* SIGNAL, KILL, RECALL (0: unknown) */
    int32_t signo;        /* SIGNAL */
    bool is_cancel;       /* SIGNAL: a user has cancelled the job */
    void *hold;           /* owns the strings of a parsed command */
};

enum helper_ev {
    HELPER_HELLO,
    HELPER_REPLY,
    HELPER_JOB,
    HELPER_GONE,
    HELPER_SCAN,
    HELPER_NODES,
    HELPER_PARTITION,
    HELPER_QUOTA,
    HELPER_DOWN,
    HELPER_UP
};

struct helper_job {
    char tag[HELPER_TAG_CAP];
    uid_t uid;
    uint32_t slurm_id;
    char state[32], reason[64], place[ALLOC_PLACE_CAP];
    int32_t exit_code, signal, restarts, limit_min, nice; /* limit 0: none */
    int64_t submitted;       /* seconds since 1970 */
    int64_t ended, expected; /* likewise; 0: not, or Slurm does not report it */
};

struct helper_news {
    enum helper_ev ev;
    uint64_t id;                 /* REPLY */
    bool is_ok, is_sure;         /* REPLY */
    uint32_t slurm_id;           /* REPLY to SUBMIT, READ_EXIT (0: unknown) */
    int32_t exit_code, signal;   /* REPLY to READ_EXIT */
    char told[ATTEMPT_TOLD_CAP]; /* likewise; "": Slurm did not end it */
    bool is_ending, is_other;    /* likewise */
    int64_t ended_ms;            /* likewise; since 1970, 0: unknown */
    bool has_accounting;         /* REPLY to RECALL, which also sets job:
                                  * state .. */
    int64_t booted;              /* REPLY to RECALL; 0: unknown */
    struct error why;            /* REPLY with an error, DOWN */
    int64_t since;               /* DOWN */
    uint64_t generation, seq;
    char slurm[32]; /* HELLO: the version */
    struct helper_job job;
    struct alloc_partition partition; /* PARTITION, as are the next two */
    int32_t index, count;
    struct alloc_quota quota; /* QUOTA, with these two */
    struct alloc_node *nodes; /* NODES; owned */
    size_t n_nodes;
};

/* in   line  without its newline
 * err  ERR_INVAL not this format, or a value out of range; nothing is set
 * A command must have every key and no other; a string of Slurm's in news is
 * escaped, and truncated if it was too long. */
int helper_cmd_parse(const char *line, size_t len, struct helper_cmd *ret,
                     struct error *err) MUST_CHECK;
void helper_cmd_clear(struct helper_cmd *c);
/* Appends one line with its newline, which parse() accepts.
 * err  ERR_INVAL a value that may not be sent: out is unchanged */
int helper_cmd_encode(const struct helper_cmd *c, struct buf *out,
                      struct error *err) MUST_CHECK;
int helper_news_parse(const char *line, size_t len, struct helper_news *ret,
                      struct error *err) MUST_CHECK;
void helper_news_clear(struct helper_news *n);
int helper_news_encode(const struct helper_news *n, struct buf *out,
                       struct error *err) MUST_CHECK;

#endif
