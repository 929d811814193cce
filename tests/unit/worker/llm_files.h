/* llm_files.h - a directory of a model, as tests of it write one. */
#ifndef MGPU_TESTS_UNIT_WORKER_LLM_FILES_H
#define MGPU_TESTS_UNIT_WORKER_LLM_FILES_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "worker/checkpoint/safetensors.h"

struct model_dir {
    char path[80];
};

static inline void model_dir_init(struct model_dir *d)
{
    (void)snprintf(d->path, sizeof(d->path), "/tmp/mgpu-model.XXXXXX");
    if (mkdtemp(d->path) == NULL)
        abort();
}

static inline const char *model_dir_file(const struct model_dir *d,
                                         const char *name, char ret[512])
{
    (void)snprintf(ret, 512, "%s/%s", d->path, name);
    return ret;
}

static inline void model_dir_put(const struct model_dir *d, const char *name,
                                 const void *p, size_t n)
{
    char path[512];
    int fd =
        open(model_dir_file(d, name, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n)
        abort();
    (void)close(fd);
}

static inline void model_dir_text(const struct model_dir *d, const char *name,
                                  const char *text)
{
    model_dir_put(d, name, text, strlen(text));
}

static inline bool model_dir_has(const struct model_dir *d, const char *name)
{
    char path[512];
    return access(model_dir_file(d, name, path), F_OK) == 0;
}

/* Compares a file with a text. */
static inline bool model_dir_is(const struct model_dir *d, const char *name,
                                const char *text)
{
    char path[512];
    struct buf b = BUF_INIT;
    bool same =
        buf_read_file(&b, model_dir_file(d, name, path), 1 << 20, NULL) == 0 &&
        strcmp(buf_str(&b), text) == 0;
    buf_clear(&b);
    return same;
}

/* How many files there are. */
static inline int model_dir_count(const struct model_dir *d)
{
    int n = 0;
    DIR *dir = opendir(d->path);
    if (dir == NULL)
        abort();
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(dir);
    return n;
}

/* Removes all that is in it, and in its original/. */
static inline void model_dir_empty(const struct model_dir *d)
{
    char path[512];
    DIR *dir = opendir(d->path);
    if (dir == NULL)
        abort();
    (void)remove(model_dir_file(d, "original/tokenizer.model", path));
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)remove(model_dir_file(d, e->d_name, path));
    (void)closedir(dir);
}

static inline void model_dir_clear(const struct model_dir *d)
{
    model_dir_empty(d);
    (void)rmdir(d->path);
}

/* A file of float tensors: their names, ended by NULL, all of one shape, filled
 * with `value` and up. */
static inline void model_dir_tensors(const struct model_dir *d,
                                     const char *name,
                                     const char *const *tensors, int64_t rows,
                                     int64_t columns, float value)
{
    const int64_t shape[] = {rows, columns};
    char path[512];
    struct st_writer w;
    int fd =
        open(model_dir_file(d, name, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int rc = fd < 0 ? -1 : 0;
    safetensors_writer_init(&w, fd);
    for (int i = 0; tensors[i] != NULL && rc == 0; i++)
        rc = safetensors_declare(&w, tensors[i], ST_F32, shape, 2, NULL);
    rc = rc < 0 ? rc : safetensors_begin(&w, NULL);
    for (int i = 0; tensors[i] != NULL && rc == 0; i++)
        for (int64_t k = 0; k < rows * columns && rc == 0; k++, value++)
            rc = st_write(&w, &value, sizeof(value), NULL);
    if (rc < 0 || safetensors_end(&w, NULL) < 0)
        abort();
    safetensors_writer_clear(&w);
    (void)close(fd);
}

#endif
