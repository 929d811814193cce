/* files_wire.c - see files_wire.h. Both ends are programs of one build on one
 * machine, so a packet is a C struct followed by a text without its NUL. */
#include "slurm/as_user/files_wire.h"

#include <stdbool.h>
#include <string.h>

#include "jobs/log/log_times.h"

enum { REQ_MAGIC = 0x6d676672, ANS_MAGIC = 0x6d676661 };

struct req_head {
    uint32_t magic, op;
    uint64_t seq, offset;
    uint32_t uid, cap, dir_len, name_len;
};
struct ans_head {
    uint32_t magic, code;
    uint64_t seq, offset, dropped;
    uint32_t n, zero;
};
_Static_assert(sizeof(struct req_head) == 40, "no padding");
_Static_assert(sizeof(struct ans_head) == 40, "no padding");

/* ---- valid names and directories ------------------------------------------
 */
static bool is_number(const char *s, size_t len)
{
    return len >= 1 && len <= 20 && strspn(s, "0123456789") >= len;
}

/* "<head><at most 9 digits><end>" */
static bool is_numbered(const char *name, const char *head, const char *end)
{
    size_t at = strlen(head), len = strlen(name), n_end = strlen(end);
    return strncmp(name, head, at) == 0 && len > at + n_end &&
           len - at - n_end <= 9 && is_number(name + at, len - at - n_end) &&
           strcmp(name + len - n_end, end) == 0;
}

static bool is_name(const char *name)
{
    return strcmp(name, "report.json") == 0 ||
           strcmp(name, LOGTIMES_NAME) == 0 ||
           is_numbered(name, "spool.", "") ||
           is_numbered(name, "metrics.", ".jsonl") ||
           is_numbered(name, "metrics.", ".read");
}

/* Absolute, its last two parts numbers, no part empty, "." or "..". */
static bool is_dir(const char *dir)
{
    int n_numbers = 0;
    if (dir[0] != '/')
        return false;
    for (const char *p = dir + 1;; p++) {
        size_t len = strcspn(p, "/");
        if (len == 0 || (len == 1 && p[0] == '.') ||
            (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        n_numbers = is_number(p, len) ? n_numbers + 1 : 0;
        p += len;
        if (!*p)
            return n_numbers >= 2;
    }
}

static int check(const struct files_req *r, struct error *err)
{
    if (r->op != FILES_READ && r->op != FILES_LOG)
        return error_set(err, ERR_INVAL, "no such request");
    if (r->uid == (uid_t)-1 || r->offset > INT64_MAX || r->cap < 1 ||
        r->cap > FILES_DATA_MAX)
        return error_set(err, ERR_INVAL, "a number is out of range");
    if (!is_dir(r->dir))
        return error_set(err, ERR_INVAL,
                         "'%.80s' is no directory of an attempt", r->dir);
    if (r->op == FILES_READ ? !is_name(r->name) : r->name[0] != '\0')
        return error_set(err, ERR_INVAL, "'%.40s' is no file of an attempt",
                         r->name);
    return 0;
}

/* ---- requests -------------------------------------------------------------
 */
int files_req_encode(const struct files_req *r, struct buf *out,
                     struct error *err)
{
    struct req_head h = {.magic = REQ_MAGIC,
                         .op = (uint32_t)r->op,
                         .seq = r->seq,
                         .offset = r->offset,
                         .uid = (uint32_t)r->uid,
                         .cap = r->cap,
                         .dir_len = (uint32_t)strlen(r->dir),
                         .name_len = (uint32_t)strlen(r->name)};
    if (check(r, err) < 0 ||
        buf_reserve(out, sizeof(h) + h.dir_len + h.name_len, err) < 0 ||
        buf_add(out, &h, sizeof(h), err) < 0 ||
        buf_add(out, r->dir, h.dir_len, err) < 0)
        return -1;
    return buf_add(out, r->name, h.name_len, err);
}

/* Copies len bytes without a NUL among them, and appends one. */
static bool take_text(char *ret, size_t cap, const char *from, size_t len)
{
    if (len >= cap || memchr(from, '\0', len))
        return false;
    memcpy(ret, from, len);
    ret[len] = '\0';
    return true;
}

int files_req_parse(const void *packet, size_t len, struct files_req *ret,
                    struct error *err)
{
    struct req_head h;
    struct files_req r;
    const char *text = (const char *)packet + sizeof(h);
    ret->seq = 0;
    if (len < sizeof(h))
        return error_set(err, ERR_INVAL, "not a request");
    memcpy(&h, packet, sizeof(h));
    if (h.magic != REQ_MAGIC)
        return error_set(err, ERR_INVAL, "not a request");
    ret->seq = h.seq;
    memset(&r, 0, sizeof(r));
    if (h.dir_len >= sizeof(r.dir) || h.name_len >= sizeof(r.name) ||
        len != sizeof(h) + h.dir_len + h.name_len ||
        !take_text(r.dir, sizeof(r.dir), text, h.dir_len) ||
        !take_text(r.name, sizeof(r.name), text + h.dir_len, h.name_len))
        return error_set(err, ERR_INVAL, "a request of the wrong length");
    r.op = h.op == FILES_READ || h.op == FILES_LOG ? (enum files_op)h.op : 0;
    r.seq = h.seq;
    r.uid = (uid_t)h.uid;
    r.offset = h.offset;
    r.cap = h.cap;
    if (check(&r, err) < 0)
        return -1;
    *ret = r;
    return 0;
}

/* ---- answers --------------------------------------------------------------
 */
int files_ans_encode(const struct files_ans *a, struct buf *out,
                     struct error *err)
{
    struct ans_head h = {.magic = ANS_MAGIC,
                         .code = (uint32_t)a->code,
                         .seq = a->seq,
                         .offset = a->offset,
                         .dropped = a->dropped,
                         .n = (uint32_t)a->n};
    if (a->n > FILES_DATA_MAX)
        return error_set(err, ERR_INTERNAL, "an answer of %zu bytes", a->n);
    if (buf_reserve(out, sizeof(h) + a->n, err) < 0 ||
        buf_add(out, &h, sizeof(h), err) < 0)
        return -1;
    return buf_add(out, a->data, a->n, err);
}

int files_ans_parse(const void *packet, size_t len, struct files_ans *ret,
                    struct error *err)
{
    struct ans_head h;
    if (len < sizeof(h))
        return error_set(err, ERR_INVAL, "not an answer");
    memcpy(&h, packet, sizeof(h));
    if (h.magic != ANS_MAGIC || h.zero != 0 || h.code > ERR_TIMEOUT ||
        h.n > FILES_DATA_MAX || len != sizeof(h) + h.n)
        return error_set(err, ERR_INVAL, "not an answer");
    *ret = (struct files_ans){.seq = h.seq,
                              .code = (enum err_code)h.code,
                              .offset = h.offset,
                              .dropped = h.dropped,
                              .data = (const char *)packet + sizeof(h),
                              .n = h.n};
    return 0;
}
