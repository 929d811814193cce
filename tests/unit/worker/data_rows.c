/* data_rows.c - rows of JSON files, in both forms; which are refused, and how
 * the message names them. */
#include "worker/data/text/json_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

static char path[] = "/tmp/data_rowsXXXXXX";

static void write_file(const char *text, size_t len)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fwrite(text, 1, len, f) != len || fclose(f) != 0) {
        tap_diag("cannot write %s", path);
        exit(1);
    }
}

/* Rows are numbers in "n"; 13 is a bad one. */
static int take(void *arg, const json_t *row, int32_t number, struct error *err)
{
    const json_t *n = json_object_get(row, "n");
    if (!json_is_integer(n))
        return error_set(err, ERR_INVAL, "no number");
    if (json_integer_value(n) == 13)
        return error_set(err, ERR_INVAL, "13");
    if (json_integer_value(n) == 99)
        return error_set(err, ERR_NOMEM, "99");
    if (number == 7 && json_integer_value(n) != 7)
        return error_set(err, ERR_INTERNAL, "row 7 has another number");
    return buf_addf(arg, err, "%d ", (int)json_integer_value(n));
}

struct got {
    struct buf rows;
    struct json_skipped skipped;
    struct error err;
    int rc;
};

static void read_rows(struct got *g, const char *text, size_t len, int32_t most,
                      bool skip)
{
    memset(g, 0, sizeof(*g));
    write_file(text, len);
    const struct json_ask ask = {.path = path,
                                 .most = most,
                                 .skip_bad = skip,
                                 .take = take,
                                 .arg = &g->rows};
    g->rc = json_rows_read(&ask, &g->skipped, &g->err);
}

static void gives(const char *text, int32_t most, const char *want)
{
    struct got g;
    read_rows(&g, text, strlen(text), most, false);
    ok(g.rc == 0, "read: %s", g.err.msg);
    is_str(buf_str(&g.rows), want, "the rows");
    is_int(g.skipped.n, 0, "none is left out");
    buf_clear(&g.rows);
}

/* want: what follows the file's name */
static void refuses(const char *text, const char *want)
{
    struct got g;
    read_rows(&g, text, strlen(text), 0, false);
    const size_t n = strlen(path);
    ok(g.rc < 0 && g.err.code == ERR_INVAL, "refused");
    ok(strncmp(g.err.msg, path, n) == 0, "the file is named");
    is_str(g.err.msg + (strlen(g.err.msg) >= n ? n : 0), want, "and the place");
    buf_clear(&g.rows);
}

static void test_forms(void)
{
    gives("[{\"n\": 1}, {\"n\": 2}]", 0, "1 2 ");
    gives(" \n[\n\n{\"n\":\n 1}\n,{\"n\": 2}\n] \n", 0, "1 2 ");
    gives("[]", 0, "");
    gives("  [ ]\n", 0, "");
    gives("", 0, "");
    gives(" \n\n", 0, "");
    gives("{\"n\": 1}", 0, "1 ");
    gives("\n{\"n\": 1}\r\n\n   \n{\"n\": 2}\n", 0, "1 2 ");
    gives("[{\"n\": 1}, {\"n\": 2}, {\"n\": 3}]", 2, "1 2 ");
    gives("{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n", 2, "1 2 ");
    gives("{\"n\": 1}\n{\"n\": 2}\nnothing\n", 2, "1 2 ");
    gives("{\"n\": 1}\n", 2, "1 ");
    gives("{\"n\":1}\n{\"n\":2}\n\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n{\"n\":6}\n"
          "{\"n\":7}\n{\"n\":8}\n",
          0, "1 2 3 4 5 6 7 8 ");
}

static void test_errors(void)
{
    refuses("[{\"n\": 1}, {\"n\": \"x\"}]", ": row 2: line 1: no number");
    refuses("[\n{\"n\": 1},\n\n{\"n\": 13}]", ": row 2: line 4: 13");
    refuses("{\"n\": 1}\n\n{\"n\": 13}\n", ": row 2: line 3: 13");
    refuses("[{\"n\": 1}", ": line 1: the file ends, expected ',' or ']'");
    refuses("[{\"n\": 1} {\"n\": 2}]", ": line 1: '{', expected ',' or ']'");
    refuses("[{\"n\": 1}]\n x", ": line 2: 'x', expected the end");
    refuses("[{\"n\": 1},\n]", ": row 2: line 2: unexpected token near ']'");
    refuses("[\n\n{\"n\":\n]", ": row 1: line 4: unexpected token near ']'");
    refuses("{\"n\": 1} {\"n\": 2}\n",
            ": row 1: line 1: end of file expected near '{'");
    refuses("{\"n\": 1}\n{\n\"n\": 2}\n",
            ": row 2: line 2: string or '}' expected near end of file");
    refuses("{\"n\": 1, \"n\": 2}\n",
            ": row 1: line 1: duplicate object key near '\"n\"'");
    refuses("n\n1\n",
            ": line 1: 'n', expected '[' of an array of rows or '{' of a "
            "first row");
    refuses("\xef\xbb\xbf[]", ": line 1: byte 0xef, expected '[' of an array "
                              "of rows or '{' of a first row");
    refuses("[1, 2]", ": row 1: line 1: no number");
}

static void test_utf8(void)
{
    struct got g;
    refuses("{\"n\": 1}\n{\"s\": \"\xff\", \"n\": 2}\n",
            ": row 2: line 2: unable to decode byte 0xff near '\"'");
    refuses("[{\"s\": \"\xc0\x80\"}]",
            ": row 1: line 1: unable to decode byte 0xc0 near '\"'");
    refuses("[{\"s\": \"\\ud800\"}]",
            ": row 1: line 1: invalid Unicode '\\uD800' near '\"\\ud800\"'");
    read_rows(&g, "{\"n\"\0: 1}\n", 10, 0, false);
    ok(g.rc < 0 && g.err.code == ERR_INVAL, "a NUL: %s", g.err.msg);
    buf_clear(&g.rows);
}

static void test_skipping(void)
{
    static const char text[] = "{\"n\": 1}\n{\"n\": 13}\n{broken\n{\"n\": 2}\n";
    struct got g;
    read_rows(&g, text, strlen(text), 0, true);
    is_int(g.rc, 0, "bad rows are left out");
    is_str(buf_str(&g.rows), "1 2 ", "of lines");
    is_int(g.skipped.n, 2, "and counted");
    ok(strstr(g.skipped.first.msg, ": row 2: line 2: 13") != NULL,
       "the first one is kept: %s", g.skipped.first.msg);
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 13}, {\"n\": 1}, {\"n\": 13}]", 32, 2, true);
    is_int(g.rc, 0, "as of an array");
    is_str(buf_str(&g.rows), "1 ", "whose first 2 rows are 1");
    is_int(g.skipped.n, 1, "and a bad one");
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 1}, broken]", 18, 0, true);
    ok(g.rc < 0, "an array that is none is an error: %s", g.err.msg);
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 99}]", 11, 0, true);
    ok(g.rc < 0 && g.err.code == ERR_NOMEM, "so is a lack of memory");
    buf_clear(&g.rows);
}

static void test_files(void)
{
    struct error err = ERROR_INIT;
    struct json_skipped skipped;
    struct json_ask ask = {.path = "/nowhere/rows.json", .take = take};
    ok(json_rows_read(&ask, &skipped, &err) < 0 && err.code == ERR_NOTFOUND,
       "no such file: %s", err.msg);
    ask.path = "/tmp";
    ok(json_rows_read(&ask, &skipped, &err) < 0 && err.code != ERR_NONE,
       "a directory: %s", err.msg);
    write_file("{\"n\": 13}\n", 10);
    ask.path = path;
    is_int(json_rows_read(&ask, &skipped, NULL), -1, "without an error");
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) < 0)
        return 1;
    test_forms();
    test_errors();
    test_utf8();
    test_skipping();
    test_files();
    (void)unlink(path);
    return tap_done();
}
