/* tmp.h - a private directory, and its end. */
#ifndef MGPU_TESTS_UNIT_DB_TMP_H
#define MGPU_TESTS_UNIT_DB_TMP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tmp {
    char dir[64];
    char path[384]; /* what tmp_path() returned last */
};

static inline void tmp_begin(struct tmp *t)
{
    *t = (struct tmp){.dir = "/tmp/mgpu-db-XXXXXX"};
    if (!mkdtemp(t->dir)) {
        perror(t->dir);
        exit(1);
    }
}

static inline const char *tmp_path(struct tmp *t, const char *name)
{
    (void)snprintf(t->path, sizeof(t->path), "%s/%s", t->dir, name);
    return t->path;
}

static inline void tmp_clear(struct tmp *t)
{
    DIR *d = opendir(t->dir);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlink(tmp_path(t, e->d_name));
    if (d)
        closedir(d);
}

static inline void tmp_end(struct tmp *t)
{
    tmp_clear(t);
    (void)rmdir(t->dir);
}

#endif
