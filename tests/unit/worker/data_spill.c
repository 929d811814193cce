/* data_spill.c - tokens that go to a file while rows are read, on one thread
 * and on several: the same bytes, in little memory, and without room all of
 * them in memory. */
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/worker/token_files.h"
#include "worker/data/cache/token_cache.h"
#include "worker/data/cache/token_file.h"
#include "worker/data/text/ordered_work.h"

static char dir[] = "/tmp/data_spillXXXXXX";
static char data[64], tokens[64], temp[64];
static struct tokenizer *t;

static void name_files(void)
{
    (void)snprintf(data, sizeof(data), "%s/rows.json", dir);
    (void)snprintf(tokens, sizeof(tokens), "%s/x.tokens", dir);
    (void)snprintf(temp, sizeof(temp), "%s/x.tokens.tmp", dir);
}

/* ---- lists --------------------------------------------------------------- */

static void add(struct token_list *l, int32_t from, int32_t n)
{
    struct error err = ERROR_INIT;
    for (int32_t i = from; i < from + n; i++)
        text_must(buf_add(&l->memory, &i, sizeof(i), &err), &err);
}

static void test_list(void)
{
    struct error err = ERROR_INIT;
    struct token_list l = {.has_file = false};
    FILE *file = fopen(temp, "w+"), *copy = fopen(tokens, "w+");
    uint64_t sum = 0;
    int32_t got[300], wrong = 0;
    if (file == NULL || copy == NULL)
        exit(1);
    add(&l, 0, 100);
    token_list_use_file(&l, dup(fileno(file)), 12);
    text_must(token_list_flush(&l, &err), &err);
    add(&l, 100, 100);
    text_must(token_list_flush(&l, &err), &err);
    add(&l, 200, 100);
    is_int((long long)token_list_values(&l), 300, "in a file and in memory");
    is_int((long long)l.memory.len, 400, "most of them in the file");
    text_must(token_list_write(&l, fileno(copy), &sum, &err), &err);
    if (pread(fileno(copy), got, sizeof(got), 0) != sizeof(got))
        exit(1);
    for (int32_t i = 0; i < 300; i++)
        wrong += got[i] != i;
    is_int(wrong, 0, "they are copied in order");
    text_must(token_list_flush(&l, &err), &err);
    ok(l.sum == sum, "with the sum of all");
    text_must(token_list_recall(&l, &err), &err);
    for (int32_t i = 0; i < 300; i++)
        wrong += token_list_data(&l)[i] != i;
    ok(!l.has_file && wrong == 0, "and come back to memory");
    token_list_clear(&l);
    (void)fclose(file);
    (void)fclose(copy);
}

/* ---- in little memory ---------------------------------------------------- */

enum { LONG_ROWS = 1500, LONG_TOKENS = 4000, PEAK_MIB = 24 };

static size_t peak;
static int lost; /* calls of no_room() */

static void look(void *arg, int64_t bytes, int64_t rows)
{
    const struct mallinfo2 m = mallinfo2();
    const size_t now = m.uordblks + m.hblkhd;
    (void)arg;
    (void)bytes;
    (void)rows;
    peak = now > peak ? now : peak;
}

static void no_room(void *arg, const struct error *why)
{
    tap_diag("%s", why->msg);
    (void)arg;
    lost++;
}

static struct token_spill spill_of(size_t bytes)
{
    return (struct token_spill){.path = temp,
                                .base = token_file_base(),
                                .bytes = bytes,
                                .no_room = no_room};
}

static void write_long(void)
{
    FILE *f = fopen(data, "w");
    for (int i = 0; f != NULL && i < LONG_ROWS; i++) {
        (void)fprintf(f, "{\"input_ids\":[%d", i % 7);
        for (int k = 1; k < LONG_TOKENS; k++)
            (void)fputs(k % 2 ? ",1" : ",3", f);
        (void)fputs("]}\n", f);
    }
    if (f == NULL || fclose(f) != 0)
        exit(1);
}

static void test_memory(void)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_TOKENS, .path = data};
    const struct token_spill spill = spill_of(1 << 20);
    struct token_conf conf = {
        .text = &text, .eos = -1, .progress = look, .spill = &spill};
    struct token_data d, plain, read;
    write_long();
    text_must(token_data_open(&conf, &d, &err), &err);
    ok(d.ids.has_file && peak < (size_t)PEAK_MIB << 20,
       "%zu MiB of tokens in %zu MiB of memory",
       2 * token_list_values(&d.ids) * sizeof(int32_t) >> 20, peak >> 20);
    text_must(token_file_write(tokens, &d, &err), &err);
    const struct token_file_want want = {.files = 1};
    text_must(token_file_read(tokens, &want, &read, &err), &err);
    conf.spill = NULL;
    text_must(token_data_open(&conf, &plain, &err), &err);
    ok(digest_of(&read) == digest_of(&plain) && read.n == LONG_ROWS &&
           read.longest == LONG_TOKENS,
       "the same tokens as in memory");
    token_data_clear(&d);
    token_data_clear(&read);
    token_data_clear(&plain);
}

/* ---- on which processors ------------------------------------------------- */

struct threads {
    cpu_set_t want;
    pid_t others[8]; /* the caller's, and what a sanitizer has */
    int n_others;
    int n, wrong; /* beside these; that may run elsewhere */
};

static bool is_other(const struct threads *w, pid_t id)
{
    for (int i = 0; i < w->n_others; i++)
        if (w->others[i] == id)
            return true;
    return false;
}

/* Each thread has its processors when it begins. Before the first of them rows
 * is -1. */
static void look_at_threads(void *arg, int64_t bytes, int64_t rows)
{
    struct threads *w = arg;
    struct dirent *e;
    DIR *list = opendir("/proc/self/task");
    (void)bytes;
    w->n = w->wrong = 0;
    while (list != NULL && (e = readdir(list)) != NULL) {
        const pid_t id = (pid_t)strtol(e->d_name, NULL, 10);
        cpu_set_t set;
        if (id <= 0 || is_other(w, id) ||
            sched_getaffinity(id, sizeof(set), &set) < 0)
            continue;
        if (rows < 0 && w->n_others < 8)
            w->others[w->n_others++] = id;
        w->n++;
        w->wrong += !CPU_EQUAL(&set, &w->want);
    }
    if (list != NULL)
        (void)closedir(list);
}

/* The caller is bound to one processor, as a launcher binds a rank. */
static void test_processors(void)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_TOKENS, .path = data};
    struct threads w = {.n = 0};
    struct token_conf conf = {.text = &text,
                              .eos = -1,
                              .progress = look_at_threads,
                              .arg = &w,
                              .cpus = &w.want};
    struct token_data d;
    cpu_set_t all, one, now;
    size_t first = 0;
    look_at_threads(&w, 0, -1);
    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        exit(1);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        exit(1);
    write_long();
    w.want = all;
    text_must(token_data_open(&conf, &d, &err), &err);
    const int most = ordered_work_cpus(&all);
    is_int(w.n, most > 1 ? most : 0, "a thread for each processor of the set");
    is_int(w.wrong, 0, "which may run on all of them");
    ok(sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &one),
       "the caller stays where it is");
    token_data_clear(&d);
    /* Beyond all that there are. */
    CPU_ZERO(&w.want);
    CPU_SET(CPU_SETSIZE - 1, &w.want);
    CPU_SET(CPU_SETSIZE - 2, &w.want);
    text_must(token_data_open(&conf, &d, &err), &err);
    is_int(d.n, LONG_ROWS, "processors that nobody may have: all rows");
    is_int(w.n, 2, "by threads");
    is_int(w.wrong, 2, "that run where the caller does");
    token_data_clear(&d);
    if (sched_setaffinity(0, sizeof(all), &all) < 0)
        exit(1);
    is_int(ordered_work_cpus(NULL), most, "no set: those of the process");
    CPU_ZERO(&one);
    is_int(ordered_work_cpus(&one), most, "nor one that is not known");
}

static void say(void *arg, const char *line)
{
    (void)arg;
    tap_diag("%s", line);
}

/* Who makes a long file reads it as the others do. */
static void test_cache(void)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_TOKENS, .path = data};
    const struct token_conf conf = {.text = &text, .eos = -1};
    const struct token_cache_conf cache = {
        .tokens = &conf, .dir = dir, .clock = &clock_real, .say = say};
    struct token_data d;
    text_must(token_cache_open(&cache, &d, &err), &err);
    ok(d.is_kept && d.files.n == 1 && d.n == LONG_ROWS &&
           token_data_check(&d, 8, &err) == 0,
       "a long file is read by its maker, too");
    token_data_clear(&d);
}

/* ---- one thread and several ---------------------------------------------- */

enum { ROWS = 1300 };

/* Rows of up to a kilobyte: an empty answer at `bad`, no JSON at `broken`. */
static void write_rows(int bad, int broken)
{
    FILE *f = fopen(data, "w");
    for (int i = 0; f != NULL && i < ROWS; i++)
        (void)fprintf(f, "{\"instruction\": \"%0*d\", \"output\": \"%s\"%s\n",
                      20 + i % 700, i, i % 500 == bad ? " " : "yes",
                      i == broken ? "" : "}");
    if (f == NULL || fclose(f) != 0)
        exit(1);
}

static void read_bytes(struct buf *ret)
{
    struct error err = ERROR_INIT;
    buf_reset(ret);
    text_must(buf_read_file(ret, tokens, 1 << 28, &err), &err);
}

/* The file of tokens, or the message where rows are refused. */
static void tokenise(int32_t threads, bool skip, struct buf *ret)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_ALPACA,
                             .path = data,
                             .on_bad_row = skip ? BAD_ROW_SKIP : BAD_ROW_FAIL};
    const struct token_spill spill = spill_of(20000);
    const struct token_conf conf = {.text = &text,
                                    .tokenizer = t,
                                    .eos = -1,
                                    .max_seq_len = 900,
                                    .threads = threads,
                                    .spill = &spill};
    struct token_data d;
    buf_reset(ret);
    if (token_data_open(&conf, &d, &err) < 0) {
        text_must(buf_addstr(ret, err.msg, &err), &err);
        return;
    }
    text_must(token_file_write(tokens, &d, &err), &err);
    token_data_clear(&d);
    read_bytes(ret);
}

static void test_threads(void)
{
    static const struct {
        int bad, broken;
        bool skip;
    } cases[] = {{-1, -1, false},   {-1, 700, false}, {300, 900, false},
                 {400, 900, false}, {30, 1299, true}, {77, 0, true}};
    static const int32_t threads[] = {2, 64, 0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf one = BUF_INIT, more = BUF_INIT;
        write_rows(cases[i].bad, cases[i].broken);
        tokenise(1, cases[i].skip, &one);
        if (one.len < sizeof(struct error))
            tap_diag("%s", one.data);
        for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++) {
            tokenise(threads[k], cases[i].skip, &more);
            ok(one.len == more.len && memcmp(one.data, more.data, one.len) == 0,
               "case %zu: %d threads, the same %zu bytes", i, threads[k],
               one.len);
        }
        if (cases[i].broken == 900)
            ok(strstr(one.data, cases[i].bad == 300 ? ": row 301: line 301: "
                                                    : ": row 401: ") != NULL,
               "the first bad row is named");
        buf_clear(&one);
        buf_clear(&more);
    }
}

/* ---- no room ------------------------------------------------------------- */

static void test_no_room(void)
{
    struct error err = ERROR_INIT;
    struct spec_text text = {.template = TEMPLATE_ALPACA, .path = data};
    const struct token_spill spill = spill_of(20000);
    struct token_conf conf = {.text = &text, .tokenizer = t, .eos = -1};
    struct token_data d, plain;
    struct rlimit was, small;
    write_rows(-1, -1);
    text_must(token_data_open(&conf, &plain, &err), &err);
    conf.spill = &spill;
    if (getrlimit(RLIMIT_FSIZE, &was) < 0)
        exit(1);
    small = was;
    small.rlim_cur = 100000;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &small) < 0)
        exit(1);
    int rc = token_data_open(&conf, &d, &err);
    (void)setrlimit(RLIMIT_FSIZE, &was);
    text_must(rc, &err);
    ok(d.no_room && !d.ids.has_file && lost == 1 &&
           digest_of(&d) == digest_of(&plain),
       "a full disk: all tokens are in memory");
    token_data_clear(&d);
    (void)snprintf(temp, sizeof(temp), "%s/absent/x", dir);
    text_must(token_data_open(&conf, &d, &err), &err);
    ok(d.no_room && lost == 2 && digest_of(&d) == digest_of(&plain),
       "no file: all tokens are in memory");
    token_data_clear(&d);
    token_data_clear(&plain);
    name_files();
}

int main(void)
{
    char command[64], from[4096];
    struct error err = ERROR_INIT;
    if (mkdtemp(dir) == NULL)
        return 1;
    name_files();
    text_must(tokenizer_open(golden_path(text_model_files[0], from), &t, &err),
              &err);
    test_list();
    test_memory();
    test_processors();
    test_cache();
    test_threads();
    test_no_room();
    tokenizer_close(t);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        return 1;
    return tap_done();
}
