/* data_rows.c - rows of JSON files, of tables, packed and of several files;
 * which are refused, and how the message names them. */
#include "worker/data/rows/data_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

static char dir[] = "/tmp/data_rowsXXXXXX";
static char path[64];

static void name_file(const char *name)
{
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
}

static void write_file(const char *text, size_t len)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fwrite(text, 1, len, f) != len || fclose(f) != 0) {
        tap_diag("cannot write %s", path);
        exit(1);
    }
}

/* Rows are numbers in "n", or texts of them; 13 is a bad one. */
static int take(void *arg, const json_t *row, struct row_place place,
                struct error *err)
{
    const json_t *v = json_object_get(row, "n");
    const char *text = json_string_value(v);
    if (!json_is_integer(v) &&
        (text == NULL || strspn(text, "0123456789") == 0))
        return error_set(err, ERR_INVAL, "no number");
    const long n =
        text != NULL ? strtol(text, NULL, 10) : (long)json_integer_value(v);
    if (n == 13)
        return error_set(err, ERR_INVAL, "13");
    if (n == 99)
        return error_set(err, ERR_NOMEM, "99");
    if (place.number == 7 && n != 7)
        return error_set(err, ERR_INTERNAL, "row 7 has another number");
    if (text != NULL && json_object_get(row, "s") != NULL)
        return buf_addf(arg, err, "%ld=%s ", n,
                        json_string_value(json_object_get(row, "s")));
    return buf_addf(arg, err, "%ld ", n);
}

struct got {
    struct buf rows;
    struct rows_skipped skipped;
    struct error err;
    int rc;
};

static void read_again(struct got *g, int32_t most, bool skip)
{
    struct data_files files = {.n = 0};
    memset(g, 0, sizeof(*g));
    struct row_sink to = {
        .most = most, .skip_bad = skip, .take = take, .arg = &g->rows};
    g->rc = data_files_find(path, NULL, &files, &g->err);
    if (g->rc == 0)
        g->rc = data_rows_read(&files, &to, &g->err);
    g->skipped = to.skipped;
    data_files_clear(&files);
}

static void read_rows(struct got *g, const char *text, size_t len, int32_t most,
                      bool skip)
{
    write_file(text, len);
    read_again(g, most, skip);
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
    gives("\xef\xbb\xbf{\"n\": 1}\n", 0, "1 ");
    gives("\xef\xbb\xbf[{\"n\": 1}]", 0, "1 ");
    gives("\xef\xbb\xbf", 0, "");
    gives("[{\"n\":1,\"s\":\"]}\\\"],{\\\\\"},{\"s\":[[{}]],\"n\":2}]", 0,
          "1 2 ");
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
    refuses("\xfe\xff[]", ": line 1: byte 0xfe, expected '[' of an array of "
                          "rows or '{' of a first row");
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
    ok(strstr(g.skipped.why[0].msg, ": row 2: line 2: 13") != NULL,
       "the first one is kept: %s", g.skipped.why[0].msg);
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 13}, {\"n\": 1}, {\"n\": 13}]", 32, 2, true);
    is_int(g.rc, 0, "as of an array");
    is_str(buf_str(&g.rows), "1 ", "whose first 2 rows are 1");
    is_int(g.skipped.n, 1, "and a bad one");
    buf_clear(&g.rows);
    static const char broken[] =
        "[{\"n\": 1}, broken,\n {\"n\" 3}, {\"n\": 2}, {\"n\": \"\x01\"}]";
    read_rows(&g, broken, strlen(broken), 0, true);
    ok(g.rc == 0, "elements that are no JSON: %s", g.err.msg);
    is_str(buf_str(&g.rows), "1 2 ", "are left out");
    is_int(g.skipped.n, 3, "and counted");
    ok(strstr(g.skipped.why[1].msg, ": row 3: line 2: ") != NULL,
       "with their place: %s", g.skipped.why[1].msg);
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 1}, {\"n\": \"2}]", 22, 0, true);
    ok(g.rc < 0, "a quote that does not end is an error: %s", g.err.msg);
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 1} broken]", 17, 0, true);
    ok(g.rc < 0, "so is what is between elements: %s", g.err.msg);
    buf_clear(&g.rows);
    read_rows(&g, "[{\"n\": 99}]", 11, 0, true);
    ok(g.rc < 0 && g.err.code == ERR_NOMEM, "so is a lack of memory");
    buf_clear(&g.rows);
}

/* ---- tables -------------------------------------------------------------- */

static void test_tables(void)
{
    name_file("rows.csv");
    gives("n,s\n1,a\n2,b\n", 0, "1=a 2=b ");
    gives("\xef\xbb\xbfn,s\r\n1,a\r\n\r\n2,b", 0, "1=a 2=b ");
    gives("s,n\n\"a, \"\"b\"\"\nc\",1\n\"\",2\n", 0, "1=a, \"b\"\nc 2= ");
    gives("s,n\n\"a\r\n\"b,1\n a\"b ,2\n", 0, "1=a\r\nb 2= a\"b  ");
    gives("n\n1\n\"2\"\n", 0, "1 2 ");
    gives("n,s\n1,a\n2,b\n3,c\n", 2, "1=a 2=b ");
    gives("n,s\n", 0, "");
    gives("", 0, "");
    gives("\n\n", 0, "");
    refuses("n,s\n1\n", ": row 1: line 2: 1 columns, the first line names 2");
    refuses("n,s\n1,\"a\nb\"\n2,b,c\n",
            ": row 2: line 4: 3 columns, the first line names 2");
    refuses("n,n\n", ": line 1: two columns are named 'n'");
    refuses("n,s\n1,\"a\n\n",
            ": row 1: line 2: the quotes of a field do not end");
    refuses("n,s\n1,\xff\n", ": row 1: line 2: column 's': not UTF-8");
    refuses("s,m\n1,2\n", ": row 1: line 2: no number");
    name_file("rows.tsv");
    gives("n\ts\n1\ta,b\n2\t\"b\tc\"\n", 0, "1=a,b 2=b\tc ");
}

static void test_bad_rows_of_tables(void)
{
    static const char text[] = "n,s\n1,a\n2\n13,b\n3,\xff\n4,d,e\n5,f\n7,g\n"
                               "8,h\n9,i\n";
    struct got g;
    name_file("rows.csv");
    read_rows(&g, text, sizeof(text) - 1, 0, true);
    is_int(g.rc, 0, "bad rows are left out");
    is_str(buf_str(&g.rows), "1=a 5=f 7=g 8=h 9=i ", "of a table");
    is_int(g.skipped.n, 4, "all are counted");
    ok(strstr(g.skipped.why[2].msg, "row 4: line 5: column 's': not UTF-8") !=
           NULL,
       "three are named: %s", g.skipped.why[2].msg);
    buf_clear(&g.rows);
    read_rows(&g, "n,s\n1,a\n2,\"b\n", 14, 0, true);
    ok(g.rc < 0, "quotes that do not end are an error: %s", g.err.msg);
    buf_clear(&g.rows);
}

/* A table of many rows, longer than what is read at once. */
static void test_long(void)
{
    enum { ROWS = 60000 };
    struct got g;
    struct buf text = BUF_INIT, want = BUF_INIT;
    for (int form = 0; form < 3; form++) {
        buf_reset(&text);
        buf_reset(&want);
        name_file(form == 0 ? "a.csv" : "a.json");
        if (buf_addstr(&text, form == 0 ? "n,t\n" : form == 1 ? "[" : "", NULL))
            exit(1);
        for (int i = 0; i < ROWS; i++)
            if (buf_addf(&want, NULL, "%d ", i == 6 ? 7 : 1000 + i) < 0 ||
                buf_addf(&text, NULL,
                         form == 0 ? "%d,\"x\n\"\"y\"\n"
                                   : "{\"n\": %d, \"t\": \"[x\\\"y{\"}%s",
                         i == 6 ? 7 : 1000 + i,
                         form == 2      ? "\n"
                         : i + 1 < ROWS ? ",\n"
                                        : "]") < 0)
                exit(1);
        read_rows(&g, buf_str(&text), text.len, 0, false);
        ok(g.rc == 0 && strcmp(buf_str(&g.rows), buf_str(&want)) == 0,
           "%d rows in %zu bytes", ROWS, text.len);
        buf_clear(&g.rows);
    }
    buf_clear(&text);
    buf_clear(&want);
}

/* ---- files --------------------------------------------------------------- */

static void write_gz(const char *name, const char *text, size_t cut)
{
    struct stat st;
    name_file(name);
    gzFile f = gzopen(path, "wb");
    if (f == NULL || gzputs(f, text) < 0 || gzclose(f) != Z_OK ||
        stat(path, &st) < 0 || truncate(path, st.st_size - (off_t)cut) < 0)
        exit(1);
}

static void test_packed(void)
{
    struct got g;
    write_gz("rows.csv.gz", "n,s\n1,a\n", 0);
    read_again(&g, 0, false);
    is_str(buf_str(&g.rows), "1=a ", "a table in gzip");
    buf_clear(&g.rows);
    write_gz("rows.jsonl.gz", "{\"n\": 5}\n", 0);
    read_again(&g, 0, false);
    is_str(buf_str(&g.rows), "5 ", "lines in gzip");
    buf_clear(&g.rows);
    write_gz("cut.jsonl.gz", "{\"n\": 5}\n{\"n\": 6}\n", 9);
    read_again(&g, 0, true);
    ok(g.rc < 0 && g.err.code == ERR_INVAL &&
           strstr(g.err.msg, "the gzip data end too early") != NULL,
       "a file that is cut: %s", g.err.msg);
    buf_clear(&g.rows);
    write_file("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03xxxxxxxxxxxx", 22);
    read_again(&g, 0, true);
    ok(g.rc < 0 && strstr(g.err.msg, "damaged gzip data") != NULL,
       "damaged data: %s", g.err.msg);
    buf_clear(&g.rows);
}

static void finds(const char *name, const char *const *list, size_t n,
                  const char *want)
{
    struct data_files files = {.n = 0};
    struct error err = ERROR_INIT;
    struct spec_list below = {(char **)(uintptr_t)list, n};
    struct got g = {.rc = 0};
    struct row_sink to = {.take = take, .arg = &g.rows};
    name_file(name);
    g.rc = data_files_find(path, &below, &files, &err);
    if (g.rc == 0)
        g.rc = data_rows_read(&files, &to, &err);
    ok(g.rc == 0, "%s: %s", name, err.msg);
    is_str(buf_str(&g.rows), want, "its rows");
    buf_clear(&g.rows);
    data_files_clear(&files);
}

static void test_many(void)
{
    static const char *const list[] = {"b2.csv", "b1.json"};
    static const char *const glob[] = {"b*.json", "b2.csv"};
    name_file("b1.json");
    write_file("[{\"n\": 1}]", 10);
    name_file("b2.csv");
    write_file("n\n2\n", 4);
    name_file("b3.json");
    write_file("{\"n\": 3}\n{\"n\": 4}", 17);
    finds("b*", NULL, 0, "1 2 3 4 ");
    finds("b?.json", NULL, 0, "1 3 4 ");
    finds("", list, 2, "2 1 ");
    finds("", glob, 2, "1 3 4 2 ");
    name_file("c[1].json");
    write_file("[{\"n\": 5}]", 10);
    finds("c[1].json", NULL, 0, "5 ");
}

static int find(const char *name, struct error *err)
{
    struct data_files files;
    return data_files_find(name, NULL, &files, err);
}

static void test_files(void)
{
    struct error err = ERROR_INIT;
    struct got g;
    name_file("none.json");
    read_again(&g, 0, false);
    ok(g.rc < 0 && g.err.code == ERR_NOTFOUND, "no such file: %s", g.err.msg);
    name_file("none*.json");
    ok(find(path, &err) < 0 && err.code == ERR_NOTFOUND, "nor such files: %s",
       err.msg);
    ok(find(dir, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "data_files") != NULL,
       "a directory: %s", err.msg);
    name_file("rows.json");
    struct row_sink to = {.take = take};
    struct data_files one = {.path = (char *[]){path}, .n = 1};
    write_file("{\"n\": 13}\n", 10);
    is_int(data_rows_read(&one, &to, NULL), -1, "without an error");
}

int main(void)
{
    char command[64];
    if (mkdtemp(dir) == NULL)
        return 1;
    name_file("rows.json");
    test_forms();
    test_errors();
    test_utf8();
    test_skipping();
    test_tables();
    test_bad_rows_of_tables();
    test_long();
    test_packed();
    test_many();
    test_files();
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        return 1;
    return tap_done();
}
