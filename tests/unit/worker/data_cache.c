/* data_cache.c - tokenised rows that are kept in a file: what another run gets
 * of it, what is made again, and what happens where it cannot be written. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/worker/cache_rig.h"

static bool same(const struct token_data *a, const struct token_data *b)
{
    return a->n == b->n && a->longest == b->longest && a->most == b->most &&
           a->tokens == b->tokens && a->labelled == b->labelled &&
           a->files.n == b->files.n && a->skipped.n == b->skipped.n &&
           a->cut == b->cut && a->lost == b->lost &&
           memcmp(&a->unread, &b->unread, sizeof(a->unread)) == 0 &&
           digest_of(a) == digest_of(b);
}

static void test_kept(void)
{
    struct run r;
    struct token_data plain, first, second;
    struct error err = ERROR_INIT;
    char path[400];
    begin(&r);
    text_must(token_data_open(&r.tokens, &plain, &err), &err);
    open_cache(&r, &first);
    ok(!first.is_kept && same(&plain, &first), "the first makes the rows");
    is_int(files_of(".tokens", path, sizeof(path)), 1, "and keeps them");
    is_int(files_of(".tmp", path, sizeof(path)), 0, "under their name alone");
    open_cache(&r, &second);
    ok(second.is_kept && same(&plain, &second), "the second reads them");
    is_str(second.files.path[0], data, "with the names of the data");
    is_int(token_data_check(&second, 512, &err), 0, "which can be checked");
    token_data_clear(&plain);
    token_data_clear(&first);
    token_data_clear(&second);
    r.conf.min_bytes = 1 << 20;
    open_cache(&r, &first);
    ok(!first.is_kept, "small data are not looked up");
    token_data_clear(&first);
}

/* What a job is told of its rows is told again. */
static void test_cut(void)
{
    static const char row[] =
        "[{\"messages\": [{\"role\": \"user\", \"content\": \"a\"},"
        " {\"role\": \"assistant\", \"content\": \"a long answer\","
        " \"name\": \"x\"}]}]";
    char rows[64];
    struct run r;
    struct token_data first, second;
    empty_dir();
    begin(&r);
    (void)snprintf(rows, sizeof(rows), "%s/chat.json", dir);
    token_file(rows, row);
    r.text = (struct spec_text){.template = TEMPLATE_CHAT, .path = rows};
    r.tokens.max_seq_len = 8;
    open_cache(&r, &first);
    ok(first.cut == 1 && first.lost > 0 && first.unread.n == 1,
       "a row loses %lld labelled tokens, and has a key that is not read",
       (long long)first.lost);
    open_cache(&r, &second);
    ok(second.is_kept && same(&first, &second), "as those who read it say");
    token_data_clear(&first);
    token_data_clear(&second);
    (void)unlink(rows);
    empty_dir();
}

static double told; /* the share that was told last */

static void tell(void *arg, double share)
{
    (void)arg;
    told = share;
}

static void test_told(void)
{
    static const struct clock clock = {.now_s = tick};
    struct run r;
    struct token_data d;
    empty_dir();
    begin(&r);
    r.conf.clock = &clock;
    r.conf.tokenised = tell;
    told = -1;
    open_cache(&r, &d);
    ok(told > 0 && told <= 1, "the share that is tokenised is told: %g", told);
    token_data_clear(&d);
    told = -1;
    open_cache(&r, &d);
    ok(told < 0, "none where the rows are there already");
    token_data_clear(&d);
}

static void test_keys(void)
{
    struct run r;
    char first[TOKEN_CACHE_KEY_CAP], other[TOKEN_CACHE_KEY_CAP];
    struct error err = ERROR_INIT;
    struct data_files files;
    struct spec_pair pair = {(char *)(uintptr_t) "input",
                             (char *)(uintptr_t) "question"};
    const struct spec_map columns = {&pair, 1};
    begin(&r);
    text_must(data_files_find(data, NULL, &files, &err), &err);
    text_must(token_cache_key(&r.conf, &files, first, &err), &err);
    for (int i = 0; i < 13; i++) {
        begin(&r);
        r.text.train_on_input = i == 0;
        r.text.samples = i == 1;
        r.text.split = i == 2 ? (char *)(uintptr_t) "train[:1]" : NULL;
        r.tokens.max_seq_len = i == 3 ? 8 : 0;
        r.tokens.prompt = i == 4 ? PROMPT_CHATML : PROMPT_NONE;
        r.tokens.system_prompt = i == 5 ? "" : NULL;
        r.tokens.columns = i == 6 ? &columns : NULL;
        r.tokens.eos = i == 7 ? 1 : -1;
        r.tokens.is_whole = i == 9;
        r.tokens.is_unknown = i == 10;
        if (i == 11)
            r.tokens.end = (struct chat_text_end){.id = 1, .name = "</s>"};
        r.text.on_bad_row = i == 8 ? BAD_ROW_SKIP : BAD_ROW_FAIL;
        text_must(token_cache_key(&r.conf, &files, other, &err), &err);
        ok((strcmp(first, other) != 0) == (i < 12),
           i < 12 ? "another key %d has another name" : "%d: the same", i);
    }
    data_files_clear(&files);
}

/* The same bytes in a file of another form are other rows. */
static void test_form(void)
{
    static const char *const forms[] = {"x.json", "x.csv", "x.tsv", "x.jsonl"};
    char path[100], key[4][TOKEN_CACHE_KEY_CAP];
    struct error err = ERROR_INIT;
    struct run r;
    for (int i = 0; i < 4; i++) {
        struct data_files files;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, forms[i]);
        token_file(path, "a,b\tc\n1,2\t3\n");
        begin(&r);
        text_must(data_files_find(path, NULL, &files, &err), &err);
        text_must(token_cache_key(&r.conf, &files, key[i], &err), &err);
        data_files_clear(&files);
        (void)unlink(path);
    }
    ok(strcmp(key[0], key[1]) != 0 && strcmp(key[1], key[2]) != 0 &&
           strcmp(key[0], key[2]) != 0,
       "commas, tabs and JSON have names of their own");
    is_str(key[3], key[0], "JSON has one");
}

/* Rows that are replaced while they are read are not kept under a name that is
 * made of what was there before. */
static void replace_data(void *arg, double share)
{
    char other[80];
    (void)arg;
    (void)share;
    (void)snprintf(other, sizeof(other), "%s.new", data);
    token_file(other, "[{\"instruction\": \"a\", \"output\": \"b\"},"
                      " {\"instruction\": \"c\", \"output\": \"d e f\"}]");
    if (rename(other, data) < 0)
        exit(1);
}

static void test_replaced(void)
{
    static const struct clock clock = {.now_s = tick};
    struct run r;
    struct token_data d;
    char path[400];
    empty_dir();
    begin(&r);
    r.conf.clock = &clock;
    r.conf.tokenised = replace_data;
    open_cache(&r, &d);
    ok(d.n == 2 && strstr(r.said, "it changed while it was read") != NULL,
       "a file that is replaced: %s", r.said);
    is_int(files_of(".tokens", path, sizeof(path)), 0, "is not kept");
    token_data_clear(&d);
}

/* A directory beside the data goes first; what may not be written there goes
 * to the user's. */
static void test_beside(void)
{
    char beside[80], path[400], command[500];
    struct run r;
    struct token_data d;
    struct stat st;
    empty_dir();
    begin(&r);
    (void)snprintf(beside, sizeof(beside), "%s/.mgpu", dir);
    if (mkdir(beside, 0755) < 0 || chmod(data, 0644) < 0)
        exit(1);
    open_cache(&r, &d);
    token_data_clear(&d);
    is_int(files_of(".tokens", path, sizeof(path)), 0, "not in the user's");
    r.conf.dir = NULL;
    open_cache(&r, &d);
    ok(d.is_kept, "but beside the data, for those without one as well");
    token_data_clear(&d);
    (void)snprintf(command, sizeof(command), "mv %s/*.tokens %s/x", beside,
                   dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        exit(1);
    (void)snprintf(path, sizeof(path), "%s/x", dir);
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644,
       "and who may read the data may read them");
    (void)snprintf(command, sizeof(command), "rm -r %s", beside);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        exit(1);
}

/* A byte more at the end of the file changes what it is. */
static void touch_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+");
    if (f == NULL || fseek(f, at, SEEK_SET) != 0)
        exit(1);
    const int c = fgetc(f);
    if (fseek(f, at, SEEK_SET) != 0 || fputc(c ^ 1, f) == EOF || fclose(f) != 0)
        exit(1);
}

static void test_changed(void)
{
    struct run r;
    struct token_data d;
    char path[400];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    touch_byte(model, 100); /* the piece of a token that no row has */
    open_cache(&r, &d);
    ok(!d.is_kept, "another tokenizer: made again");
    token_data_clear(&d);
    is_int(files_of(".tokens", path, sizeof(path)), 2, "beside the other");
    token_file(data, "[{\"instruction\": \"a\", \"output\": \"c\"}]");
    open_cache(&r, &d);
    ok(!d.is_kept && d.n == 1, "other rows: made again");
    token_data_clear(&d);
}

static void test_damaged(void)
{
    struct run r;
    struct token_data d, again;
    struct stat st;
    char path[400];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    if (files_of(".tokens", path, sizeof(path)) != 1 || stat(path, &st) < 0)
        exit(1);
    for (int i = 0; i < 5; i++) {
        begin(&r);
        if (i == 4 ? truncate(path, 0) < 0
                   : i == 3 && truncate(path, st.st_size - 4) < 0)
            exit(1);
        if (i < 3)
            touch_byte(path, i == 0 ? 3 : i == 1 ? 40 : (long)st.st_size - 30);
        open_cache(&r, &again);
        ok(!again.is_kept && same(&d, &again) &&
               strstr(r.said, "tokenising again") != NULL,
           "%s", r.said);
        token_data_clear(&again);
        open_cache(&r, &again);
        ok(again.is_kept && same(&d, &again), "and whole again");
        token_data_clear(&again);
    }
    token_data_clear(&d);
}

/* A file that another process was writing when it was killed. */
static void test_killed(void)
{
    struct run r;
    struct token_data d;
    char path[400], temp[420];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    if (files_of(".tokens", path, sizeof(path)) != 1)
        exit(1);
    (void)snprintf(temp, sizeof(temp), "%s.tmp", path);
    if (rename(path, temp) < 0 || truncate(temp, 100) < 0)
        exit(1);
    open_cache(&r, &d);
    ok(!d.is_kept, "half a file is no file");
    token_data_clear(&d);
    is_int(files_of(".tmp", path, sizeof(path)), 0, "and makes way");
    open_cache(&r, &d);
    ok(d.is_kept, "for a whole one");
    token_data_clear(&d);
}

static void test_no_room(void)
{
    struct run r;
    struct token_data d;
    char path[400];
    struct rlimit was, small;
    empty_dir();
    begin(&r);
    if (getrlimit(RLIMIT_FSIZE, &was) < 0)
        exit(1);
    small = was;
    small.rlim_cur = 200;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &small) < 0)
        exit(1);
    open_cache(&r, &d);
    (void)setrlimit(RLIMIT_FSIZE, &was);
    ok(!d.is_kept && d.n > 0 && strstr(r.said, "are not cached") != NULL,
       "no room: %s", r.said);
    is_int(files_of(".tmp", path, sizeof(path)) +
               files_of(".tokens", path, sizeof(path)),
           0, "nothing is left there");
    token_data_clear(&d);
    begin(&r);
    r.conf.dir = "/nowhere/cache";
    open_cache(&r, &d);
    ok(d.n > 0 && strstr(r.said, "are not cached") != NULL, "no directory: %s",
       r.said);
    token_data_clear(&d);
    r.conf.dir = NULL;
    open_cache(&r, &d);
    ok(d.n > 0, "no cache at all");
    token_data_clear(&d);
}

static void test_dir(void)
{
    char cache[100], job[110], want[120];
    const struct spec_map none = {.n = 0};
    char other[] = "A", nowhere[] = "/nowhere", name[] = "XDG_CACHE_HOME";
    struct spec_pair pairs[] = {{other, nowhere}, {name, job}};
    const struct spec_map env = {.pairs = pairs, .n = 2};
    struct stat st;
    (void)snprintf(cache, sizeof(cache), "%s/xdg", dir);
    (void)snprintf(want, sizeof(want), "%s/mgpu", cache);
    (void)setenv("XDG_CACHE_HOME", cache, 1);
    char *got = token_cache_dir(&none);
    is_str(got != NULL ? got : "", want, "$XDG_CACHE_HOME/mgpu");
    ok(stat(want, &st) == 0 && S_ISDIR(st.st_mode), "is made");
    free(got);
    (void)snprintf(job, sizeof(job), "%s/job", dir);
    (void)snprintf(want, sizeof(want), "%s/mgpu", job);
    got = token_cache_dir(&env);
    is_str(got != NULL ? got : "", want, "the job's own comes first");
    free(got);
    (void)setenv("XDG_CACHE_HOME", "/proc/none", 1); /* cannot be made */
    (void)setenv("HOME", cache, 1);
    got = token_cache_dir(&none);
    (void)snprintf(want, sizeof(want), "%s/.cache/mgpu", cache);
    is_str(got != NULL ? got : "", want, "$HOME/.cache/mgpu");
    free(got);
    (void)unsetenv("HOME");
    (void)unsetenv("XDG_CACHE_HOME");
    got = token_cache_dir(&none);
    ok(got == NULL, "neither: none");
    free(got);
}

int main(void)
{
    rig_open();
    test_kept();
    test_cut();
    test_told();
    test_keys();
    test_form();
    test_replaced();
    test_beside();
    test_changed();
    test_damaged();
    test_killed();
    test_no_room();
    test_dir();
    rig_close();
    return tap_done();
}
