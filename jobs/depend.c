/* depend.c - see depend.h. */
#include "jobs/depend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[DEPEND_N] = {
    [DEPEND_OK] = "afterok",
    [DEPEND_NOT_OK] = "afternotok",
    [DEPEND_ANY] = "afterany",
};

/* The word before the first ':'; a number alone is afterok. */
static int parse_kind(const char **io_at, enum depend_kind *ret)
{
    const char *at = *io_at;
    if (*at >= '0' && *at <= '9') {
        *ret = DEPEND_OK;
        return 0;
    }
    for (int k = 0; k < DEPEND_N; k++) {
        size_t len = strlen(kinds[k]);
        if (strncmp(at, kinds[k], len) == 0 && at[len] == ':') {
            *ret = (enum depend_kind)k;
            *io_at = at + len + 1;
            return 0;
        }
    }
    return -1;
}

static int parse_id(const char **io_at, uint64_t *ret)
{
    char *end = NULL;
    errno = 0;
    unsigned long long id = strtoull(*io_at, &end, 10);
    if (**io_at < '0' || **io_at > '9' || errno || id < 1 || id > INT64_MAX ||
        (*end && *end != ':'))
        return -1;
    *io_at = *end ? end + 1 : end;
    *ret = id;
    return end[0] == ':' && end[1] == '\0' ? -1 : 0;
}

int depend_parse(const char *text, struct depend io[DEPEND_MAX], size_t *io_n,
                 struct error *err)
{
    struct depend d = {.job = 0};
    const char *at = text;
    size_t n = *io_n;

    if (parse_kind(&at, &d.kind) < 0)
        return error_set(err, ERR_INVAL,
                         "'%.60s': expected afterok:JOB, afternotok:JOB or "
                         "afterany:JOB",
                         text);
    do {
        if (parse_id(&at, &d.job) < 0)
            return error_set(err, ERR_INVAL,
                             "'%.60s': expected the numbers of jobs, as in "
                             "%s:12 or %s:12:13",
                             text, kinds[d.kind], kinds[d.kind]);
        if (n == DEPEND_MAX)
            return error_set(err, ERR_INVAL,
                             "a job can wait for at most %d others",
                             (int)DEPEND_MAX);
        io[n++] = d;
    } while (*at);
    *io_n = n;
    return 0;
}

const char *depend_show(const struct depend *d, char ret[DEPEND_TEXT_CAP])
{
    (void)snprintf(ret, DEPEND_TEXT_CAP, "%s:%" PRIu64, kinds[d->kind], d->job);
    return ret;
}

enum depend_fate depend_fate(enum depend_kind kind, enum job_state state)
{
    bool is_ok = state == JOB_COMPLETED;
    if (!job_state_is_final(state))
        return DEPEND_WAITS;
    return kind == DEPEND_ANY || is_ok == (kind == DEPEND_OK) ? DEPEND_MET
                                                              : DEPEND_NEVER;
}
