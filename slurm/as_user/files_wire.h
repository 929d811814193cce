/* files_wire.h - the packets between files_helper.c and files_serve.c: one
 * request, one answer, each one packet of a SOCK_SEQPACKET pair.
 *
 * files_serve.c does not trust the daemon: its parser accepts only the names of
 * files.h, in a directory that looks like an attempt's. */
#ifndef MGPU_SLURM_AS_USER_FILES_WIRE_H
#define MGPU_SLURM_AS_USER_FILES_WIRE_H

#include "jobs/base/buf.h"
#include "slurm/as_user/files.h"

enum {
    FILES_DATA_MAX = 65536, /* below the 208 KiB that a socket holds */
    FILES_DIR_CAP = 1024,
    FILES_NAME_CAP = 32, /* metrics.<at most 9 digits>.jsonl */
    FILES_REQ_MAX = 48 + FILES_DIR_CAP + FILES_NAME_CAP,
    FILES_ANS_MAX = 48 + FILES_DATA_MAX
};

enum files_op { FILES_READ = 1, FILES_LOG };

struct files_req {
    enum files_op op;
    uint64_t seq; /* repeated in the answer */
    uid_t uid;
    uint64_t offset;
    uint32_t cap;              /* 1..FILES_DATA_MAX */
    char dir[FILES_DIR_CAP];   /* "/../12/1" */
    char name[FILES_NAME_CAP]; /* READ; LOG: "" */
};

struct files_ans {
    uint64_t seq;
    enum err_code code;       /* not ERR_NONE: data is the message */
    uint64_t offset, dropped; /* LOG */
    const void *data;         /* borrowed */
    size_t n;
};

/* err  ERR_INVAL a bad name, directory or number: nothing is written */
int files_req_encode(const struct files_req *r, struct buf *out,
                     struct error *err) MUST_CHECK;
/* out  ret->seq is set, also on failure: 0 when the packet has none */
int files_req_parse(const void *packet, size_t len, struct files_req *ret,
                    struct error *err) MUST_CHECK;

int files_ans_encode(const struct files_ans *a, struct buf *out,
                     struct error *err) MUST_CHECK;
/* ret->data points into packet. */
int files_ans_parse(const void *packet, size_t len, struct files_ans *ret,
                    struct error *err) MUST_CHECK;

#endif
