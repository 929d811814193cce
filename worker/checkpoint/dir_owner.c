/* dir_owner.c - see dir_owner.h. */
#include "worker/checkpoint/dir_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/file_atomic.h"
#include "jobs/base/plain_file.h"
#include "jobs/base/rng.h"
#include "jobs/spec/spec_run.h"
#include "jobs/wire/wire.h"
#include "worker/checkpoint/checkpoint_internal.h"

/* Ten times what a specification may have. */
enum { RECORD_MAX_BYTES = 1 << 20 };

/* ---- reading --------------------------------------------------------------
 */

static int open_record(const char *path, struct error *err)
{
    struct stat st;
    int fd = plain_file_open(path, O_NOFOLLOW, &st, err);
    if (fd < 0 || st.st_size <= RECORD_MAX_BYTES)
        return fd;
    (void)close(fd);
    return error_set(err, ERR_INVAL, "'%s' is no record of an owner", path);
}

static int read_text(int fd, struct buf *ret, struct error *err)
{
    char piece[4096];
    ssize_t n;
    while ((n = read(fd, piece, sizeof(piece))) > 0 ||
           (n < 0 && errno == EINTR))
        if (n > 0 && buf_add(ret, piece, (size_t)n, err) < 0)
            return -1;
    return n < 0 ? error_sys(err, errno, "read the record of an owner") : 0;
}

/* *ret: the caller frees; NULL: there is none. */
static int read_record(const char *dir, json_t **ret, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    struct error why = ERROR_INIT;
    json_t *o = NULL;
    int fd = -1;
    int rc = buf_addf(&path, err, "%s/%s", dir, SPEC_OWNER_FILE);
    if (rc == 0 && (fd = open_record(buf_str(&path), &why)) < 0 &&
        why.code != ERR_NOTFOUND)
        rc = error_set(err, why.code, "%s", why.msg);
    if (rc == 0 && fd >= 0 && (rc = read_text(fd, &text, err)) == 0) {
        o = json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
        if (json_string_length(json_object_get(o, "owner")) !=
            DIR_OWNER_ID_CAP - 1)
            rc = error_set(err, ERR_INVAL,
                           "'%.150s' is damaged: remove it if the directory "
                           "is this job's",
                           buf_str(&path));
    }
    if (fd >= 0)
        (void)close(fd);
    buf_clear(&path);
    buf_clear(&text);
    if (rc < 0)
        json_decref(o);
    else
        *ret = o;
    return rc;
}

int dir_owner_has_checkpoints(const char *dir, bool *ret, struct error *err)
{
    struct buf best = BUF_INIT;
    int64_t *list = NULL;
    size_t n = 0;
    int rc = checkpoint_list(dir, false, &list, &n, err);
    rc = rc < 0 ? rc : checkpoint_path(&best, dir, CKPT_BEST, "", err);
    if (rc == 0)
        *ret = n > 0 || access(buf_str(&best), F_OK) == 0;
    free(list);
    buf_clear(&best);
    return rc;
}

/* ---- writing --------------------------------------------------------------
 */

/* Some file systems have no hard links, and none of those replaces a file with
 * this flag. */
static int name_it(const char *tmp, const char *path)
{
    if (link(tmp, path) == 0)
        return 0;
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    return renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_NOREPLACE);
}

/* Returns 1 if another has been faster. */
static int make_record(const char *dir, const char *text, struct error *err)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct buf tmp = BUF_INIT, path = BUF_INIT;
    char name[HOST_NAME_MAX + 64];
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(name, sizeof(name), "%s.%s.%ld", SPEC_OWNER_FILE, host,
                   (long)getpid());
    int rc = buf_addf(&tmp, err, "%s/%s", dir, name);
    rc = rc < 0 ? rc : buf_addf(&path, err, "%s/%s", dir, SPEC_OWNER_FILE);
    rc = rc < 0 ? rc : file_atomic_create(dir, name, text, strlen(text), err);
    if (rc == 0 && name_it(buf_str(&tmp), buf_str(&path)) < 0)
        rc = errno == EEXIST
                 ? 1
                 : error_sys(err, errno, "make '%s'", buf_str(&path));
    if (tmp.len > 0)
        (void)unlink(buf_str(&tmp));
    if (rc == 0)
        rc = file_atomic_sync(dir, err);
    buf_clear(&tmp);
    buf_clear(&path);
    return rc;
}

/* A line of JSON, from malloc; NULL: no memory, or the spec is none. */
static char *record_of(const struct dir_owner *o)
{
    char host[HOST_NAME_MAX + 1] = "", at[WIRE_TIME_CAP];
    (void)gethostname(host, sizeof(host) - 1);
    wire_time(clock_real.wall_s(&clock_real), at);
    json_t *spec = json_loads(o->spec, 0, NULL);
    json_t *r =
        json_pack("{s:i, s:s, s:s, s:I, s:s, s:s, s:o}", "version", 1, "owner",
                  o->id, "cluster", o->cluster, "job", (json_int_t)o->job,
                  "host", host, "at", at, "spec", spec);
    char *text = r != NULL
                     ? json_dumps(r, JSON_COMPACT | JSON_REAL_PRECISION(17))
                     : NULL;
    json_decref(r);
    return text;
}

/* ---- whose it is ----------------------------------------------------------
 */

static const char what_to_do[] =
    "name another, leave it out, or set train.resume_from";

/* The end of a long path: a reason is short. */
enum { TAIL = 40 };
static const char *tail_of(const char *dir, char ret[TAIL + 1])
{
    const size_t n = strlen(dir);
    (void)snprintf(ret, TAIL + 1, "%s%s", n > TAIL ? "..." : "",
                   n > TAIL ? dir + n - (TAIL - 3) : dir);
    return ret;
}

/* "'/runs/a' is job 12's (n1, 2026-11-28): ..." */
static int refuse(const char *dir, const json_t *record, struct error *err)
{
    const char *host = json_string_value(json_object_get(record, "host"));
    const char *at = json_string_value(json_object_get(record, "at"));
    const json_int_t job = json_integer_value(json_object_get(record, "job"));
    char who[40] = "another run's", tail[TAIL + 1];
    if (job > 0)
        (void)snprintf(who, sizeof(who), "job %" JSON_INTEGER_FORMAT "'s", job);
    return error_set(err, ERR_STATE, "'%s' is %s (%.16s, %.10s): %s",
                     tail_of(dir, tail), who, host ? host : "?", at ? at : "?",
                     what_to_do);
}

/* 1: it has an owner, the job or, with -1, another; 0: none. */
static int compare(const char *dir, const struct dir_owner *o,
                   struct error *err)
{
    json_t *record = NULL;
    if (read_record(dir, &record, err) < 0)
        return -1;
    if (record == NULL)
        return 0;
    const char *id = json_string_value(json_object_get(record, "owner"));
    int rc =
        id != NULL && strcmp(id, o->id) == 0 ? 1 : refuse(dir, record, err);
    json_decref(record);
    return rc;
}

int dir_owner_take(const char *dir, const struct dir_owner *o,
                   struct error *err)
{
    bool has_checkpoints = false;
    char tail[TAIL + 1];
    int rc = compare(dir, o, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (o->id[0] == '\0')
        return 0;
    if (dir_owner_has_checkpoints(dir, &has_checkpoints, err) < 0)
        return -1;
    if (has_checkpoints)
        return error_set(err, ERR_STATE,
                         "'%s' has another job's checkpoints: %s",
                         tail_of(dir, tail), what_to_do);
    char *text = record_of(o);
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "record of an owner");
    rc = make_record(dir, text, err);
    free(text);
    if (rc == 1)
        rc = compare(dir, o, err);
    return rc < 0 ? -1 : 0;
}

static int id_of(const char *dir, char ret[DIR_OWNER_ID_CAP], struct error *err)
{
    json_t *record = NULL;
    if (read_record(dir, &record, err) < 0)
        return -1;
    const char *id = json_string_value(json_object_get(record, "owner"));
    (void)snprintf(ret, DIR_OWNER_ID_CAP, "%s", id != NULL ? id : "");
    json_decref(record);
    return 0;
}

int dir_owner_of_run(const char *dir, char ret[DIR_OWNER_ID_CAP],
                     struct error *err)
{
    char token[RNG_TOKEN_CAP], id[DIR_OWNER_ID_CAP] = "";
    if (id_of(dir, ret, err) < 0)
        return -1;
    if (ret[0] != '\0')
        return 0;
    if (rng_token(token, err) < 0)
        return -1;
    memcpy(id, token, sizeof(id) - 1);
    const struct dir_owner o = {.id = id, .cluster = "", .spec = "{}"};
    char *text = record_of(&o);
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "record of an owner");
    int rc = make_record(dir, text, err);
    free(text);
    return rc < 0 ? -1 : id_of(dir, ret, err); /* or whose was faster */
}

int dir_owner_spec(const char *dir, struct buf *ret, struct error *err)
{
    json_t *record = NULL;
    if (read_record(dir, &record, err) < 0)
        return -1;
    const json_t *spec = json_object_get(record, "spec");
    char *text = json_object_size(spec) > 0
                     ? json_dumps(spec, JSON_COMPACT | JSON_REAL_PRECISION(17))
                     : NULL;
    json_decref(record);
    if (text == NULL)
        return error_set(err, ERR_NOTFOUND,
                         "'%s' has no record of a specification", dir);
    int rc = buf_addstr(ret, text, err);
    free(text);
    return rc;
}
