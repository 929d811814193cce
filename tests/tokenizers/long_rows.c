/* long_rows.c - rows of 4 GiB of text are read in little memory: a table and a
 * JSON array, packed, for they are the same megabyte again and again.
 *
 * usage: long_rows MIB   (of text in each file) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"
#include "worker/data/rows/data_rows.h"

enum { PEAK_KIB = 64 * 1024, CHUNK = 1 << 20 };

static char dir[] = "/tmp/long_rowsXXXXXX";

static int take(void *arg, const json_t *row, struct row_place place,
                struct error *err)
{
    int64_t *bytes = arg;
    (void)place;
    (void)err;
    *bytes += (int64_t)json_string_length(json_object_get(row, "output"));
    return 0;
}

/* A megabyte of rows; *ret_rows of them. */
static void make_chunk(struct buf *b, bool table, int32_t *ret_rows)
{
    *ret_rows = 0;
    while (b->len < CHUNK) {
        const int i = (*ret_rows)++;
        const int rc =
            table ? buf_addf(b, NULL, "\"row %d, \"\"quoted\"\"\n\",%0500d\n",
                             i, i)
                  : buf_addf(b, NULL,
                             "{\"input\": \"row %d ]}\", \"output\": "
                             "\"%0500d\"},\n",
                             i, i);
        if (rc < 0)
            exit(1);
    }
}

static void write_file(const char *path, bool table, const struct buf *chunk,
                       long mib)
{
    gzFile f = gzopen(path, "wb1");
    bool good = f != NULL && gzputs(f, table ? "input,output\n" : "[") >= 0;
    for (long i = 0; good && i < mib; i++)
        good = gzwrite(f, chunk->data, (unsigned)chunk->len) == (int)chunk->len;
    if (good && !table)
        good = gzputs(f, "{\"output\": \"\"}]") >= 0;
    if (!good || gzclose(f) != Z_OK) {
        tap_diag("cannot write %s", path);
        exit(1);
    }
}

static void test_form(bool table, long mib)
{
    char path[64];
    char *paths[] = {path};
    const struct data_files files = {paths, 1};
    struct buf chunk = BUF_INIT;
    struct error err = ERROR_INIT;
    struct rusage use;
    int32_t rows;
    int64_t bytes = 0;
    struct row_sink to = {.take = take, .arg = &bytes};
    (void)snprintf(path, sizeof(path), "%s/rows.%s.gz", dir,
                   table ? "csv" : "json");
    make_chunk(&chunk, table, &rows);
    write_file(path, table, &chunk, mib);
    buf_clear(&chunk);
    const int rc = data_rows_read(&files, &to, &err);
    ok(rc == 0, "%s: %s", path, err.msg);
    is_int(to.rows, (long long)rows * mib + !table, "all rows");
    is_int(bytes, 500LL * rows * mib, "and all of their text");
    if (getrusage(RUSAGE_SELF, &use) < 0)
        exit(1);
    ok(use.ru_maxrss < PEAK_KIB, "%ld MiB of text in %ld MiB of memory", mib,
       use.ru_maxrss / 1024);
    (void)unlink(path);
}

int main(int argc, char **argv)
{
    const long mib = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    if (mib < 1 || mib > 1 << 20) {
        (void)fputs("usage: long_rows MIB\n", stderr);
        return 64;
    }
    if (mkdtemp(dir) == NULL)
        return 1;
    test_form(true, mib);
    test_form(false, mib);
    (void)rmdir(dir);
    return tap_done();
}
