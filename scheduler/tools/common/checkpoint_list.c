/* checkpoint_list.c - find the checkpoints of a job on this machine; see
 * checkpoint_list.h.
 *
 * worker/run_config.c decides where they are, and
 * worker/checkpoint/checkpoint.h what a directory contains.
 */
#include "scheduler/tools/common/checkpoint_list.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jobs/schema/interpolate.h"
#include "scheduler/tools/common/client.h"

/* Expands the text as the last attempt did; false: it is too long. */
static bool put(char *ret, size_t cap, const char *text, enum fill_when when,
                const struct fill_vars *v)
{
    struct buf b = BUF_INIT;
    bool fits = interpolate_text(text, when, v, &b, NULL) == 0 && b.len < cap;
    if (fits)
        memcpy(ret, buf_str(&b), b.len + 1);
    buf_clear(&b);
    return fits;
}

/* False: the job has no checkpoint directory. */
static bool place_of(const json_t *job, char *ret, size_t cap)
{
    const json_t *spec = json_object_get(job, "spec");
    const char *ckpt = field_str(json_object_get(spec, "checkpoint"), "dir");
    const char *out = field_str(json_object_get(spec, "train"), "output_dir");
    const char *dir = field_str(job, "dir");
    const char *number = strchr(field_str(job, "display_id"), '_');
    char place[CHECKPOINT_PATH_CAP];
    struct fill_vars v = {
        .name = field_str(job, "name"),
        .user = field_str(job, "user"),
        .output_dir = place,
        .job = (uint64_t)field_int(job, "id", 0),
        .task = number ? (int32_t)strtol(number + 1, NULL, 10) : 0,
        .attempt = (int32_t)field_int(job, "attempt", 0),
    };
    (void)snprintf(place, sizeof(place), "%s/out", dir);
    bool has_output = *out || *dir;
    return (has_output || (*ckpt && !interpolate_has(ckpt, "output_dir"))) &&
           (!*out || put(place, sizeof(place), out, FILL_OUTPUT, &v)) &&
           put(ret, cap, *ckpt ? ckpt : "${output_dir}/ckpt", FILL_START, &v) &&
           ret[0] == '/';
}

/* The N of "step-N"; -1: another name, or an incomplete checkpoint. */
static long long step_of(const char *name)
{
    char *end = NULL;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    long long n = strtoll(name + 5, &end, 10);
    return *end == '\0' ? n : -1;
}

void checkpoint_find(const json_t *job, char newest[CHECKPOINT_PATH_CAP],
                     char best[CHECKPOINT_PATH_CAP])
{
    char place[CHECKPOINT_PATH_CAP - 64];
    struct stat st;
    long long last = -1;
    newest[0] = best[0] = '\0';
    if (strcmp(field_str(job, "kind"), "command") == 0 ||
        !place_of(job, place, sizeof(place)))
        return;
    DIR *dir = opendir(place);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        long long n = step_of(e->d_name);
        last = n > last ? n : last;
    }
    (void)closedir(dir);
    if (last >= 0)
        (void)snprintf(newest, CHECKPOINT_PATH_CAP, "%s/step-%lld", place,
                       last);
    (void)snprintf(best, CHECKPOINT_PATH_CAP, "%s/best", place);
    if (stat(best, &st) < 0 || !S_ISDIR(st.st_mode))
        best[0] = '\0';
}
