/* llm_hf_write.c - what is written is read back, in one file or in shards, and
 * a write that fails leaves the directory as it was. */
#include "worker/llm/files/hf_write.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "tests/unit/worker/llm_files.h"
#include "worker/llm/files/hf_dir.h"

enum { TENSORS = 7 };
/* As the base's chat template ends an answer. */
static const struct hf_ends own = {.prompt = PROMPT_AUTO};
static const char index_name[] = "model.safetensors.index.json";

/* Tensors of 40, 24, 8, 0, 100, 30 and 30 bytes. */
struct model {
    float f[10];
    double d[3];
    uint16_t h[80];
    int32_t pass, fail_pass, fail_at; /* where each() fails */
    bool reverses;                    /* the second pass */
};

static const struct hf_tensor tensors[TENSORS] = {
    {.name = "model.a", .type = ST_F32, .dims = 2, .shape = {2, 5}},
    {.name = "model.b", .type = ST_F64, .dims = 1, .shape = {3}},
    {.name = "model.c", .type = ST_BF16, .dims = 3, .shape = {1, 2, 2}},
    {.name = "model.none", .type = ST_F32, .dims = 1, .shape = {0}},
    {.name = "model.large", .type = ST_F16, .dims = 2, .shape = {5, 10}},
    {.name = "model.d", .type = ST_BF16, .dims = 1, .shape = {15}},
    {.name = "model.e", .type = ST_BF16, .dims = 1, .shape = {15}},
};

static void fill(struct model *m, int seed)
{
    *m = (struct model){.fail_at = -1};
    for (int i = 0; i < 10; i++)
        m->f[i] = (float)(seed + i);
    for (int i = 0; i < 3; i++)
        m->d[i] = seed + 0.125 * i;
    for (int i = 0; i < 80; i++)
        m->h[i] = (uint16_t)(seed * 100 + i);
}

static const void *data_of(const struct model *m, int i)
{
    switch (tensors[i].type) {
    case ST_F32:
        return m->f;
    case ST_F64:
        return m->d;
    default:
        return m->h + i; /* each its own */
    }
}

static int each(void *arg,
                int (*take)(void *to, const struct hf_tensor *t,
                            struct error *err),
                void *to, struct error *err)
{
    struct model *m = arg;
    m->pass++;
    for (int i = 0; i < TENSORS; i++) {
        int k = m->reverses && m->pass == 2 ? TENSORS - 1 - i : i;
        struct hf_tensor t = tensors[k];
        t.data = data_of(m, k);
        if (m->pass == m->fail_pass && i == m->fail_at)
            return error_set(err, ERR_EXTERN, "the device has gone");
        if (take(to, &t, err) < 0)
            return -1;
    }
    return 0;
}

static int each_of_none(void *arg,
                        int (*take)(void *to, const struct hf_tensor *t,
                                    struct error *err),
                        void *to, struct error *err)
{
    (void)arg;
    (void)take;
    (void)to;
    (void)err;
    return 0;
}

/* All tensors are there, with the bytes of m. */
static bool holds(const struct model_dir *d, const struct model *m)
{
    struct error err = ERROR_INIT;
    struct hf_dir *h = NULL;
    int wrong = 0;
    if (hf_open(d->path, NULL, &h, &err) < 0) {
        tap_diag("%s", err.msg);
        return false;
    }
    for (int i = 0; i < TENSORS; i++) {
        const struct st_tensor *t = hf_find(h, tensors[i].name);
        wrong += t == NULL || t->type != tensors[i].type ||
                 t->dims != tensors[i].dims ||
                 memcmp(t->shape, tensors[i].shape, 4 * sizeof(int64_t)) != 0 ||
                 memcmp(t->data, data_of(m, i), t->bytes) != 0;
    }
    hf_close(h);
    return wrong == 0;
}

static int64_t data_bytes(const struct model_dir *d, const char *name, size_t n)
{
    struct error err = ERROR_INIT;
    struct safetensors s;
    char path[512];
    int64_t bytes = 0;
    static const char meta[] = "{\"__metadata__\":{\"format\":\"pt\"}";
    if (safetensors_open(model_dir_file(d, name, path), 1 << 20, &s, &err) <
        0) {
        tap_diag("%s", err.msg);
        return -1;
    }
    is_int((long long)s.n, (long long)n, name);
    ok(memcmp((const char *)s.map + 8, meta, sizeof(meta) - 1) == 0,
       "%s has its format", name);
    for (size_t i = 0; i < s.n; i++)
        bytes += (int64_t)s.tensors[i].bytes;
    safetensors_close(&s);
    return bytes;
}

static void written_as(const struct model_dir *d, const struct model_dir *base,
                       const struct hf_ends *ends, int64_t shard_bytes,
                       struct model *m)
{
    struct error err = ERROR_INIT;
    ok(hf_write(d->path, base->path, ends, shard_bytes, each, m, &err) == 0,
       "write: %s", err.msg);
    ok(holds(d, m), "and read");
}

static void written(const struct model_dir *d, const struct model_dir *base,
                    int64_t shard_bytes, struct model *m)
{
    written_as(d, base, &own, shard_bytes, m);
}

static void test_layouts(const struct model_dir *d,
                         const struct model_dir *base)
{
    struct model m;
    char path[512];
    model_dir_empty(d);
    fill(&m, 1);
    written(d, base, 0, &m);
    is_int(model_dir_count(d), 1, "one file");
    is_int(data_bytes(d, "model.safetensors", TENSORS), 232, "with all");

    fill(&m, 2);
    written(d, base, 64, &m);
    is_int(model_dir_count(d), 5, "four shards and an index in its place");
    is_int(data_bytes(d, "model-00001-of-00004.safetensors", 2), 64,
           "a shard that is full to the last byte");
    is_int(data_bytes(d, "model-00002-of-00004.safetensors", 2), 8,
           "what is before a large one");
    is_int(data_bytes(d, "model-00003-of-00004.safetensors", 1), 100,
           "one tensor larger than a shard may be");
    is_int(data_bytes(d, "model-00004-of-00004.safetensors", 2), 60,
           "and the rest");
    struct buf text = BUF_INIT;
    if (buf_read_file(&text, model_dir_file(d, index_name, path), 1 << 20,
                      NULL) < 0)
        abort();
    ok(strstr(buf_str(&text), "\"total_size\": 232") != NULL &&
           strstr(buf_str(&text),
                  "\"model.large\": "
                  "\"model-00003-of-00004.safetensors\"") != NULL,
       "the index: %.60s", buf_str(&text));
    buf_clear(&text);

    fill(&m, 3);
    written(d, base, 1, &m);
    ok(model_dir_has(d, "model-00006-of-00006.safetensors"),
       "a shard for each, but for the empty one");
    fill(&m, 4);
    written(d, base, 232, &m);
    ok(model_dir_has(d, "model.safetensors") && !model_dir_has(d, index_name),
       "one file again, and no index");
}

/* in   to  where base's config.json leads; written as far as it is allowed */
static void links(const struct model_dir *d, const char *base, const char *to,
                  uid_t link_owner, bool allowed, const char *what)
{
    struct error err = ERROR_INIT;
    struct model m;
    char path[600];
    model_dir_empty(d);
    fill(&m, 1);
    (void)snprintf(path, sizeof(path), "%s/config.json", base);
    (void)unlink(path);
    if (symlink(to, path) < 0 ||
        (geteuid() == 0 && lchown(path, link_owner, (gid_t)-1) < 0))
        abort();
    int rc = hf_write(d->path, base, &own, 0, each, &m, &err);
    if (allowed)
        ok(rc == 0 && model_dir_is(d, "config.json", "secret"), "%s: %s", what,
           err.msg);
    else
        ok(rc < 0 && err.code == ERR_DENIED && model_dir_count(d) == 0,
           "%s: %s", what, err.msg);
    (void)unlink(path);
}

/* The links of a cache are followed, and those of others to files of this user
 * are not. Only root can make links of others. */
static void test_links(const struct model_dir *d)
{
    const bool root = geteuid() == 0;
    struct model_dir cache = {""}, home = {""};
    char base[512], file[512], blob[512], command[600];
    model_dir_init(&cache);
    model_dir_init(&home);
    (void)snprintf(command, sizeof(command),
                   "mkdir -p %s/m/snapshots/1 %s/m/blobs %s/m/else", cache.path,
                   cache.path, cache.path);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
    (void)model_dir_file(&cache, "m/snapshots/1", base);
    model_dir_text(&home, "file", "secret");
    model_dir_text(&cache, "m/blobs/5e", "secret");
    model_dir_text(&cache, "m/else/5e", "secret");
    model_dir_text(&cache, "m/snapshots/1/x", "secret");
    (void)model_dir_file(&home, "file", file);
    (void)model_dir_file(&cache, "m/blobs/5e", blob);
    links(d, base, "../../blobs/5e", 4242, true, "a blob of its cache");
    links(d, base, blob, 4242, true, "the same, absolute");
    links(d, base, "x", 4242, true, "a file beside it");
    links(d, base, file, 0, true, "this user's link to this user's file");
    if (root) {
        links(d, base, file, 4242, false, "another's link to it");
        links(d, base, "../../else/5e", 4242, false, "beside the blobs");
        if (chown(file, 4242, (gid_t)-1) < 0)
            abort();
        links(d, base, file, 0, false, "this user's link to another's file");
    }
    (void)snprintf(command, sizeof(command), "rm -rf %s %s", cache.path,
                   home.path);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
}

static void test_copies(const struct model_dir *d, const struct model_dir *base)
{
    static const char *const names[] = {
        "config.json",           "generation_config.json",
        "tokenizer.model",       "tokenizer.json",
        "tokenizer_config.json", "special_tokens_map.json",
        "chat_template.jinja",   "original/tokenizer.model",
    };
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    struct error err = ERROR_INIT;
    struct model m;
    char path[512];
    int same = 0;
    model_dir_empty(d);
    fill(&m, 1);
    (void)mkdir(model_dir_file(base, "original", path), 0700);
    for (int i = 0; i < NAMES; i++)
        model_dir_text(base, names[i], names[i]);
    model_dir_text(base, "pytorch_model.bin", "not copied");
    written(d, base, 0, &m);
    for (int i = 0; i < NAMES; i++)
        same += model_dir_is(d, names[i], names[i]);
    is_int(same, NAMES, "each is copied");
    is_int(model_dir_count(d), NAMES + 1, "and nothing else");
    written(d, d, 0, (fill(&m, 5), &m));
    ok(model_dir_is(d, "config.json", "config.json"),
       "a directory is its own base");

    (void)unlink(model_dir_file(base, "config.json", path));
    if (mkdir(path, 0700) < 0)
        abort();
    model_dir_empty(d);
    is_int(
        hf_write(d->path, base->path, &own, 0, each, (fill(&m, 1), &m), &err),
        -1, "a directory for a file");
    ok(strstr(err.msg, "config.json") != NULL, "%s", err.msg);
    is_int(model_dir_count(d), 0, "and nothing is left");
    model_dir_empty(base);
}

/* Checks generation_config.json of a directory.
 * in  want  its text without white space; "": there is none */
static void has_ends(const struct model_dir *d, const char *want)
{
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    char path[512], is[256] = "";
    size_t n = 0;
    if (buf_read_file(&text, model_dir_file(d, "generation_config.json", path),
                      sizeof(is), &err) == 0)
        for (size_t i = 0; i < text.len && n + 1 < sizeof(is); i++)
            if (strchr(" \n", text.data[i]) == NULL)
                is[n++] = text.data[i];
    ok(strcmp(is, want) == 0, "ends that are written: %s", is);
    buf_clear(&text);
}

/* Those of a directory that is written from this base.
 * in   generation  NULL: the base has none */
static void written_ends_as(const struct model_dir *d,
                            const struct model_dir *base,
                            const struct hf_ends *ends, const char *generation,
                            const char *want)
{
    struct model m;
    char path[512];
    model_dir_empty(d);
    fill(&m, 1);
    (void)unlink(model_dir_file(base, "generation_config.json", path));
    if (generation != NULL)
        model_dir_text(base, "generation_config.json", generation);
    written_as(d, base, ends, 0, &m);
    has_ends(d, want);
}

static void written_ends(const struct model_dir *d,
                         const struct model_dir *base, const char *generation,
                         const char *want)
{
    written_ends_as(d, base, &own, generation, want);
}

/* What is beside an adapter: the ends, if the base's file lacks one of them. A
 * merged model has them, too. */
static void adapter_ends(const struct model_dir *d,
                         const struct model_dir *base)
{
    const struct hf_ends named = {.prompt = PROMPT_HERMES};
    struct model_dir adapter = {""};
    const struct hf_ends merged = {.prompt = PROMPT_AUTO,
                                   .first = adapter.path};
    struct error err = ERROR_INIT;
    model_dir_init(&adapter);
    model_dir_text(base, "generation_config.json", "{\"eos_token_id\":[613]}");
    ok(hf_write_ends(adapter.path, base->path, &named, &err) == 0 &&
           model_dir_count(&adapter) == 0,
       "an adapter of a base that has it has no file: %s", err.msg);
    model_dir_text(base, "generation_config.json", "{\"eos_token_id\":8}");
    ok(hf_write_ends(adapter.path, base->path, &named, &err) == 0, "else: %s",
       err.msg);
    has_ends(&adapter, "{\"eos_token_id\":[8,613]}");
    written_ends_as(d, base, &merged, NULL, "{\"eos_token_id\":[8,613]}");
    model_dir_clear(&adapter);
}

/* With a chat template that is known, the token that ends its answers joins
 * them: <|im_end|>, 613 of this tokenizer. */
static void templated_ends(const struct model_dir *d,
                           const struct model_dir *base)
{
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    char path[4096];
    if (buf_read_file(&text, golden_path("tests/golden/chat_ours.jinja", path),
                      65536, &err) < 0)
        abort();
    model_dir_text(base, "chat_template.jinja", buf_str(&text));
    const struct hf_ends named = {.prompt = PROMPT_HERMES}, null = {0};
    written_ends(d, base, NULL, "{\"eos_token_id\":[7,613]}");
    written_ends_as(d, base, &null, NULL, "");
    model_dir_text(base, "chat_template.jinja", "another");
    written_ends(d, base, NULL, "");
    written_ends_as(d, base, &named, NULL, "{\"eos_token_id\":[7,613]}");
    adapter_ends(d, base);
    (void)unlink(model_dir_file(base, "chat_template.jinja", path));
    buf_clear(&text);
}

/* Llama 3's <|eot_id|> joins the ends, where the tokenizer has its format. */
static void test_ends(const struct model_dir *d, const struct model_dir *base)
{
    static const char with[] =
        "tests/golden/hf_tokenizers/llama3/tokenizer.json";
    static const char without[] =
        "tests/golden/hf_tokenizers/qwen2/tokenizer.json";
    struct error err = ERROR_INIT;
    struct buf file = BUF_INIT;
    char path[4096];
    model_dir_empty(base);
    model_dir_text(base, "config.json", "{\"eos_token_id\": 7}");
    written_ends(d, base, NULL, "");
    for (int i = 0; i < 2; i++) {
        buf_reset(&file);
        if (buf_read_file(&file, golden_path(i == 0 ? without : with, path),
                          1 << 20, &err) < 0)
            abort();
        model_dir_text(base, "tokenizer.json", buf_str(&file));
        if (i == 0)
            written_ends(d, base, NULL, "");
        if (i == 0)
            templated_ends(d, base);
    }
    written_ends(d, base, NULL, "{\"eos_token_id\":[7,605]}");
    written_ends(d, base, "{\"top_p\": 0.9, \"eos_token_id\": 602}",
                 "{\"top_p\":0.9,\"eos_token_id\":[602,605]}");
    written_ends(d, base, "{\"eos_token_id\": [601, 605]}",
                 "{\"eos_token_id\":[601,605]}");
    written_ends(d, base, "no JSON", "noJSON");
    model_dir_text(base, "config.json",
                   "{\"pad_token_id\": 9, \"eos_token_id\": [7, 8], "
                   "\"bos_token_id\": 6}");
    written_ends(d, base, NULL,
                 "{\"bos_token_id\":6,\"pad_token_id\":9,"
                 "\"eos_token_id\":[7,8,605]}");
    written_ends(d, base, "{}", "{\"eos_token_id\":[7,8,605]}");
    model_dir_text(base, "config.json",
                   "{\"pad_token_id\": null, \"bos_token_id\": 6}");
    written_ends(d, base, NULL,
                 "{\"bos_token_id\":6,\"eos_token_id\":[602,605]}");
    model_dir_text(base, "config.json", "{}");
    written_ends(d, base, "{\"eos_token_id\": null}",
                 "{\"eos_token_id\":[602,605]}");
    buf_clear(&file);
    model_dir_empty(base);
    model_dir_empty(d);
}

/* The old model stays, whole and alone. */
static void stays(const struct model_dir *d, const struct model_dir *base,
                  struct model *m, int64_t shard_bytes, enum err_code code,
                  const char *words)
{
    struct error err = ERROR_INIT;
    struct model old;
    int files = model_dir_count(d);
    fill(&old, 9);
    int rc = hf_write(d->path, base->path, &own, shard_bytes, each, m, &err);
    ok(rc < 0 && err.code == code && strstr(err.msg, words) != NULL,
       "it fails: %s", err.msg);
    is_int(model_dir_count(d), files, "no file more or less");
    ok(holds(d, &old) && model_dir_is(d, "config.json", "old"),
       "and those of before");
}

static void test_failures(const struct model_dir *d,
                          const struct model_dir *base)
{
    static const int64_t layouts[] = {0, 64};
    struct error err = ERROR_INIT;
    struct rlimit all, few;
    struct model m;
    model_dir_text(base, "config.json", "new");
    for (int k = 0; k < 2; k++) {
        model_dir_empty(d);
        fill(&m, 9);
        written(d, base, layouts[k], &m);
        model_dir_text(d, "config.json", "old");
        for (int pass = 1; pass <= 2; pass++)
            for (int at = 0; at < TENSORS; at += 3) {
                fill(&m, 1);
                m.fail_pass = pass;
                m.fail_at = at;
                stays(d, base, &m, layouts[k], ERR_EXTERN, "device has gone");
            }
        fill(&m, 1);
        m.reverses = true;
        stays(d, base, &m, layouts[k], ERR_INTERNAL, "order");
    }
    /* A file may have 0 to 300 bytes: its header, its data or the index do not
     * fit. */
    if (getrlimit(RLIMIT_FSIZE, &all) < 0 ||
        signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        abort();
    few = all;
    for (rlim_t bytes = 0; bytes <= 300; bytes += 100) {
        fill(&m, 1);
        few.rlim_cur = bytes;
        if (setrlimit(RLIMIT_FSIZE, &few) < 0)
            abort();
        stays(d, base, &m, 64, ERR_IO, "safetensors");
        if (setrlimit(RLIMIT_FSIZE, &all) < 0)
            abort();
    }
    struct model_dir none = {"/tmp/mgpu-model-none"};
    fill(&m, 1);
    is_int(hf_write(none.path, base->path, &own, 0, each, &m, &err), -1,
           "no directory");
    is_int(err.code, ERR_NOTFOUND, "is not found");
    is_int(hf_write(d->path, base->path, &own, 0, each_of_none, NULL, &err), -1,
           "no tensors");
    is_int(err.code, ERR_INVAL, "are refused");
}

int main(void)
{
    struct model_dir d, base;
    model_dir_init(&d);
    model_dir_init(&base);
    test_layouts(&d, &base);
    test_copies(&d, &base);
    test_ends(&d, &base);
    test_failures(&d, &base);
    test_links(&d);
    model_dir_clear(&d);
    model_dir_clear(&base);
    return tap_done();
}
