/* helper_wire.h - what mgpu-ctld and mgpu-slurm-helper say to each other.
 *
 * One JSON object a line over a socketpair, at most HELPER_LINE_MAX bytes.
 * The daemon sends commands, each with an id, and gets one reply to each that
 * was not lost with the helper's child; the helper sends news unasked.
 *
 * The helper is the only program with libslurm and, in system mode, with the
 * privilege to act for users; whoever took over the daemon could send it any
 * line. So a command carries data only: programs, cluster, partition rules
 * and the script come from the helper's own command line, and the parser
 * refuses what is not exactly this format.
 *
 *   daemon -> helper
 *   {"op":"submit","id":7,"job":12,"attempt":1,"tag":"mgpu:c:12:1:9f..",
 *    "name":"mnist","uid":1000,"dir":"/..","launch":"{..}","nodes":2,
 *    "gpus_per_node":2,"limit_s":3600,"grace_s":120,"log_max_bytes":67108864,
 *    "log_fails":false,"log_is_plain":false,
 *    "partition":..,"account":..,"qos":..,"constraint":..,"reservation":..,
 *    "gpu_type":..,"exclude":"n1,n2","cpus_per_gpu":4,"memory_bytes":0,"exclusive":false}
 *      Makes dir and its parents and writes launch.json, batch.json and the
 *      submission's mark there (attempt_dir.h), as the user; then submits.
 *      Strings may be null. A tag of this user
 *      that is known already is not submitted again: the reply has its id.
 *      What fails with INVAL, DENIED or NOTFOUND fails for good; the rest
 *      (BUSY: a full queue; LIMIT: of the user or the account; UNAVAIL;
 *      TIMEOUT; IO: the directory, as when the user's disk is full; ..) may
 *      pass.
 *   {"op":"signal","id":8,"tag":"..","uid":1000,"slurm_id":20,"signo":15}
 *      To the ranks only, SIGKILL, too (KILL_STEPS_ONLY): the batch step
 *      lives on to write how they ended.
 *   {"op":"kill","id":8,"tag":"..","uid":1000,"slurm_id":20}
 *      Ends the job, whether it runs or not (scancel).
 *      For both: before anything is done, tag and uid are compared with the
 *      comment and the user of the job that has this id now; NOTFOUND (sure)
 *      if they differ, there is none, or it has ended; STATE (sure) a
 *      signal for ranks that do not run yet.
 *   {"op":"read_exit","id":9,"uid":1000,"dir":"/.."}
 *      dir/exit, read as the user.
 *   {"op":"recall","id":9,"tag":"..","uid":1000,"name":"mnist","dir":"/..",
 *    "slurm_id":20,"since":1795000000}
 *      A job that Slurm knows no more: what its accounting says of the one of
 *      this user with the working directory dir (slurm_id 0: with whatever
 *      id) that was submitted since then, and how long slurmctld has run.
 *   {"op":"again","id":10}
 *      The daemon had no room for some news: the child ends, and the next one
 *      tells all that it sees. No reply; those under way are lost.
 *
 *   helper -> daemon
 *   {"ev":"hello","generation":2,"slurm":"22.05.8"}
 *      First after every start. Commands that were not answered before are
 *      lost: their effect is not known. All that is known follows as news.
 *      An empty line precedes it, which ends a line that was cut short by
 *      the death of the last child: pass over both.
 *   {"ev":"reply","id":7,"slurm_id":20}
 *   {"ev":"reply","id":7,"code":"UNAVAIL","why":"..","is_sure":true}
 *      is_sure: nothing was done. Without it: perhaps it was.
 *   {"ev":"reply","id":9,"exit_code":0,"signal":0,"slurm_id":20,
 *    "ended_ms":1795000000500}
 *      slurm_id: of the job that wrote the file. NOTFOUND (sure): no file.
 *      "told":"CANCELLED": Slurm told it to end, and why (end_cause.h).
 *      "is_ending":true: that is all there is, no file.
 *      "is_other":true: it is of another submission of the attempt than the
 *      last one; with is_ending and without "told", of one that began.
 *   {"ev":"reply","id":9,"state":"CANCELLED","reason":"by anna",
 *    "exit_code":0,"signal":15,"slurm_id":20,"has_accounting":true,
 *    "booted":1795000000,"ended":1795000000}
 *      To recall. state "": accounting does not know that it has ended.
 *      booted: when slurmctld was started; 0: not known, or one of several.
 *      A reply without "code" is a success; what is left out is 0.
 *   {"ev":"job","tag":"..","uid":1000,"slurm_id":20,"state":"PENDING",
 *    "reason":"Priority","place":"n1:0,1 n2:0,1","exit_code":0,"signal":0,
 *    "restarts":0,"submitted":1795000000,"ended":0}
 *      When it is first seen and whenever it has changed. state is Slurm's
 *      base state in its own words; "COMPLETING" until the resources are free
 *      although the base state is final. Two jobs may carry one tag, and one
 *      of them may be another user's: comments can be read by everybody.
 *   {"ev":"gone","tag":"..","slurm_id":20}
 *      Slurm does not know it any more. One that slurmctld has lost before
 *      it was seen in a scan has no news at all.
 *   {"ev":"scan","seq":31}
 *      All jobs were read; the news of this scan precede it.
 *   {"ev":"nodes","nodes":[{..alloc_node..}]}   when they changed
 *   {"ev":"down","why":"..","since":1795000000} slurmctld does not answer
 *   {"ev":"up"}                                 it does again
 */
#ifndef MGPU_SLURM_PROTOCOL_HELPER_WIRE_H
#define MGPU_SLURM_PROTOCOL_HELPER_WIRE_H

#include "jobs/base/buf.h"
#include "slurm/alloc.h"
#include "slurm/launch/attempt_dir.h"

enum {
    HELPER_LINE_MAX = 8 << 20, /* thousands of nodes in one line */
    HELPER_TAG_CAP = 160,
    HELPER_DIR_CAP = 512,
    HELPER_RPC_FD = 3, /* the helper is born with these */
    HELPER_FILES_FD = 4
};

enum helper_op {
    HELPER_SUBMIT,
    HELPER_SIGNAL,
    HELPER_KILL,
    HELPER_READ_EXIT,
    HELPER_RECALL,
    HELPER_AGAIN
};

struct helper_cmd {
    enum helper_op op;
    uint64_t id;
    struct alloc_req req; /* SUBMIT; without worker. READ_EXIT: uid, dir.
                             SIGNAL, KILL: tag, uid. RECALL: tag, uid, name,
                             dir, since. Strings are borrowed */
    uint32_t slurm_id;    /* SIGNAL, KILL, RECALL (0: not known) */
    int32_t signo;        /* SIGNAL */
    void *hold;           /* owns the strings of a parsed one */
};

enum helper_ev {
    HELPER_HELLO,
    HELPER_REPLY,
    HELPER_JOB,
    HELPER_GONE,
    HELPER_SCAN,
    HELPER_NODES,
    HELPER_DOWN,
    HELPER_UP
};

struct helper_job {
    char tag[HELPER_TAG_CAP];
    uid_t uid;
    uint32_t slurm_id;
    char state[32], reason[64], place[ALLOC_PLACE_CAP];
    int32_t exit_code, signal, restarts;
    int64_t submitted; /* seconds since 1970 */
    int64_t ended;     /* likewise; 0: it has not, or Slurm does not say */
};

struct helper_news {
    enum helper_ev ev;
    uint64_t id;                 /* REPLY */
    bool is_ok, is_sure;         /* REPLY */
    uint32_t slurm_id;           /* REPLY to SUBMIT, READ_EXIT (0: not known) */
    int32_t exit_code, signal;   /* REPLY to READ_EXIT */
    char told[ATTEMPT_TOLD_CAP]; /* likewise; "" it was not */
    bool is_ending, is_other;    /* likewise */
    int64_t ended_ms;            /* likewise; since 1970, 0: not known */
    bool has_accounting;         /* REPLY to RECALL; there job, too: state .. */
    int64_t booted;              /* REPLY to RECALL; 0: not known */
    struct error why;            /* REPLY that is not ok, DOWN */
    int64_t since;               /* DOWN */
    uint64_t generation, seq;
    char slurm[32]; /* HELLO: the version */
    struct helper_job job;
    struct alloc_node *nodes; /* NODES; owned */
    size_t n_nodes;
};

/* in   line  without its newline
 * err  ERR_INVAL not this format, a value out of range; nothing is set
 * Of a command every key is needed and no other is allowed; a string of news
 * that Slurm wrote is escaped and cut where it had to be. */
int helper_cmd_parse(const char *line, size_t len, struct helper_cmd *ret,
                     struct error *err) MUST_CHECK;
void helper_cmd_clear(struct helper_cmd *c);
/* Appends one line with its newline, that parse() accepts.
 * err  ERR_INVAL a value that may not be sent: out is as before */
int helper_cmd_encode(const struct helper_cmd *c, struct buf *out,
                      struct error *err) MUST_CHECK;
int helper_news_parse(const char *line, size_t len, struct helper_news *ret,
                      struct error *err) MUST_CHECK;
void helper_news_clear(struct helper_news *n);
int helper_news_encode(const struct helper_news *n, struct buf *out,
                       struct error *err) MUST_CHECK;

#endif
