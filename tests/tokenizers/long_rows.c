/* long_rows.c - rows of 4 GiB of text are read and tokenised in little memory:
 * a table and a JSON array, packed, for they are the same megabyte again and
 * again. The tokens stay in the file that keeps them.
 *
 * usage: long_rows MIB   (of text in each file) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "worker/data/cache/token_cache.h"
#include "worker/data/rows/data_rows.h"

/* Tokenising may take TOKENS_MIB and the index, which doubles as it grows. */
enum {
    PEAK_KIB = 64 * 1024,
    TOKENS_MIB = 256,
    INDEX_TIMES = 3,
    CHUNK = 1 << 20,
    MAX_SEQ_LEN = 128
};

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

/* ---- tokens -------------------------------------------------------------- */

static long peak_kib;

/* The cache asks for the time once in 256 rows: that is when memory is looked
 * at. Pages of files do not count. */
static double now_s(const struct clock *c)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[200];
    long kib;
    (void)c;
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0 &&
            (kib = strtol(line + 8, NULL, 10)) > peak_kib)
            peak_kib = kib;
    if (f != NULL)
        (void)fclose(f);
    return clock_real.now_s(&clock_real);
}

static const struct clock looking = {.now_s = now_s};

static void say(void *arg, const char *line)
{
    (void)arg;
    tap_diag("%s", line);
}

static void test_tokens(long mib)
{
    char path[64], model[4096];
    struct buf chunk = BUF_INIT;
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    struct token_data d;
    struct spec_text text = {.template = TEMPLATE_GRAMMAR, .path = path};
    int32_t rows;
    if (tokenizer_open(golden_path("tests/data/torchtune/small", model), &t,
                       &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    const struct token_conf conf = {
        .text = &text, .tokenizer = t, .eos = -1, .max_seq_len = MAX_SEQ_LEN};
    const struct token_cache_conf cache = {.tokens = &conf,
                                           .tokenizer_path = model,
                                           .dir = dir,
                                           .clock = &looking,
                                           .say = say};
    (void)snprintf(path, sizeof(path), "%s/rows.csv.gz", dir);
    make_chunk(&chunk, true, &rows);
    write_file(path, true, &chunk, mib);
    buf_clear(&chunk);
    const double from_s = now_s(&looking);
    if (token_cache_open(&cache, &d, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    const double took_s = now_s(&looking) - from_s;
    const long index_kib = (long)d.n * (long)sizeof(struct token_row) / 1024;
    is_int(d.n, (long long)rows * mib, "all rows are tokenised");
    ok(d.is_kept, "and read from there");
    ok(peak_kib < TOKENS_MIB * 1024 + INDEX_TIMES * index_kib,
       "%ld MiB of text, %lld million tokens in %ld MiB of memory, %ld MiB of "
       "them for the index, in %.0f s",
       mib, (long long)d.tokens / 1000000, peak_kib / 1024, index_kib / 1024,
       took_s);
    token_data_clear(&d);
    tokenizer_close(t);
}

int main(int argc, char **argv)
{
    char command[64];
    const long mib = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    if (mib < 1 || mib > 1 << 20) {
        (void)fputs("usage: long_rows MIB\n", stderr);
        return 64;
    }
    if (mkdtemp(dir) == NULL)
        return 1;
    test_form(true, mib);
    test_form(false, mib);
    test_tokens(mib);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        return 1;
    return tap_done();
}
