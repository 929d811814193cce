/* reference_file.c - see reference_file.h. */
#include "worker/llm/files/reference_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/file_atomic.h"
#include "jobs/base/plain_file.h"
#include "worker/checkpoint/crc64.h"

static const char magic[8] = "mgpuref1";

struct header {
    char magic[8];
    uint64_t sum; /* CRC-64 of the values */
    int64_t n;
};

static int read_values(FILE *f, double *ret, int64_t n, struct error *err)
{
    struct header h;
    if (fread(&h, sizeof(h), 1, f) != 1 ||
        memcmp(h.magic, magic, sizeof(magic)) != 0)
        return error_set(err, ERR_INVAL, "no log p of this version");
    if (h.n != n)
        return error_set(err, ERR_INVAL, "%lld values, expected %lld",
                         (long long)h.n, (long long)n);
    if (fread(ret, sizeof(*ret), (size_t)n, f) != (size_t)n ||
        fgetc(f) != EOF || crc64(0, ret, (size_t)n * sizeof(*ret)) != h.sum)
        return error_set(err, ERR_INVAL, "damaged");
    return 0;
}

int reference_file_read(const char *dir, const char *name, double *ret,
                        int64_t n, struct error *err)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return error_set(err, ERR_NOMEM, "%s", name);
    int fd = plain_file_open(path, 0, NULL, err), rc = fd < 0 ? -1 : 0;
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && f == NULL) {
        rc = error_set(err, ERR_NOMEM, "%s", path);
        (void)close(fd);
    }
    if (f != NULL && read_values(f, ret, n, err) < 0)
        rc = error_wrap(err, "%s", path);
    if (f != NULL)
        (void)fclose(f);
    free(path);
    return rc;
}

int reference_file_write(const char *dir, const char *name, const double *v,
                         int64_t n, struct error *err)
{
    struct file_atomic f = FILE_ATOMIC_INIT;
    const size_t bytes = (size_t)n * sizeof(*v);
    struct header h = {.sum = crc64(0, v, bytes), .n = n};
    memcpy(h.magic, magic, sizeof(magic));
    int rc = file_atomic_open(&f, dir, name, err);
    rc = rc < 0 ? rc : file_atomic_write(&f, &h, sizeof(h), err);
    rc = rc < 0 ? rc : file_atomic_write(&f, v, bytes, err);
    rc = rc < 0 ? rc : file_atomic_close(&f, err);
    rc = rc < 0 ? rc : file_atomic_rename(&f, err);
    rc = rc < 0 ? rc : file_atomic_sync(dir, err);
    file_atomic_clear(&f);
    return rc;
}
