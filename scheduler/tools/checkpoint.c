/* checkpoint.c - see checkpoint.h; worker/job.c says where they are, and
 * worker/checkpoint.h what is there. */
#include "scheduler/tools/checkpoint.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/tools/client.h"

/* False: the job has no such place. */
static bool place_of(const json_t *job, char *ret, size_t cap)
{
    const json_t *spec = json_object_get(job, "spec");
    const char *ckpt = field_str(json_object_get(spec, "checkpoint"), "dir");
    const char *out = field_str(json_object_get(spec, "train"), "output_dir");
    const char *dir = field_str(job, "dir");
    int n = *ckpt  ? snprintf(ret, cap, "%s", ckpt)
            : *out ? snprintf(ret, cap, "%s/ckpt", out)
                   : snprintf(ret, cap, "%s/out/ckpt", dir);
    return n > 0 && (size_t)n < cap && ret[0] == '/' && (*ckpt || *out || *dir);
}

/* The N of "step-N"; -1: it is none, or one that is not done. */
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
    if (strcmp(field_str(job, "kind"), "cv") != 0 ||
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
