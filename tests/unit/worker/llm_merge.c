/* llm_merge.c - a base and its adapter as one model: PEFT's values, the files
 * of the base, ties, and what is refused.
 *
 * tests/golden/merge.py says what PEFT makes of it in double. Our value is
 * that, rounded once to the type of the base. */
#include "worker/llm/llama_merge.h"

#include <math.h>
#include <sys/stat.h>

#include "tests/golden/golden.h"
#include "tests/unit/worker/llm_files.h"
#include "worker/llm/config/llama_config.h"
#include "worker/llm/config/llama_rope.h"
#include "worker/llm/files/hf_dir.h"
#include "worker/llm/files/hf_write.h"

static const char *const types[] = {"float64", "float32", "float16",
                                    "bfloat16"};
static const enum st_type st_of[] = {ST_F64, ST_F32, ST_F16, ST_BF16};
static const enum dtype dt_of[] = {DT_F64, DT_F32, DT_F16, DT_BF16};
enum { TYPES = 4 };
static const char head_copy[] = "base_model.model.lm_head.base_layer.weight";

/* tests/golden/archs.py: other architectures, with biases. */
static const char *const archs[] = {"qwen2", "biases", "mistral", "qwen3"};
/* tests/golden/patterns.py: adapters of many ranks, or of some layers. */
static const char *const ranked[] = {"adapter-patterns", "adapter-layers",
                                     "adapter-named"};

/* The places of a test. */
struct places {
    struct model_dir base, top; /* the merged one is in top */
    char out[80], partial[80];
};

/* A copy of a directory in another type, in shards of so many bytes, with one
 * more tensor in fp64: a vector. */
struct copy {
    struct hf_dir *from;
    int type;
    double *values;
    const char *more; /* NULL: none */
    int64_t n;
    const double *more_values;
};

static int each(void *arg,
                int (*take)(void *to, const struct hf_tensor *t,
                            struct error *err),
                void *to, struct error *err)
{
    struct copy *c = arg;
    const struct safetensors *s = hf_file_tensors(c->from, 0);
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i];
        const struct hf_tensor out = {.name = t->name,
                                      .type = st_of[c->type],
                                      .dims = t->dims,
                                      .shape = {t->shape[0], t->shape[1]},
                                      .data = c->values};
        hf_copy(t, 0, (int64_t)t->bytes / st_types[t->type].bytes,
                dt_of[c->type], c->values);
        if (take(to, &out, err) < 0)
            return -1;
    }
    if (c->more == NULL)
        return 0;
    const struct hf_tensor out = {.name = c->more,
                                  .type = ST_F64,
                                  .dims = 1,
                                  .shape = {c->n},
                                  .data = c->more_values};
    return take(to, &out, err);
}

static void make_base_more(const struct places *p, const char *name, int type,
                           int64_t shard_bytes, struct copy more)
{
    char path[4096], of[64];
    struct error err = ERROR_INIT;
    struct copy c = more;
    const struct hf_ends ends = {.prompt = PROMPT_AUTO};
    c.type = type;
    c.values = calloc(1 << 16, sizeof(double));
    (void)snprintf(of, sizeof(of), "tests/data/llama-%s", name);
    model_dir_empty(&p->base);
    if (c.values == NULL ||
        hf_open(golden_path(of, path), NULL, &c.from, &err) ||
        hf_write(p->base.path, path, &ends, shard_bytes, each, &c, &err) < 0) {
        tap_diag("%s", err.msg);
        abort();
    }
    hf_close(c.from);
    free(c.values);
}

static void make_base(const struct places *p, const char *name, int type,
                      int64_t shard_bytes)
{
    make_base_more(p, name, type, shard_bytes, (struct copy){.more = NULL});
}

/* All that a merge leaves. */
static void remove_out(const struct places *p)
{
    struct model_dir d;
    (void)snprintf(d.path, sizeof(d.path), "%s", p->out);
    model_dir_empty(&d);
    (void)rmdir(p->out);
}

static void adapter_path(const char *model, const char *adapter, char ret[4096])
{
    char of[96];
    (void)snprintf(of, sizeof(of), "tests/data/llama-%s/%s", model, adapter);
    (void)golden_path(of, ret);
}

/* Half of the distance to the next value of the type. */
static double half_step(int type, double v)
{
    static const int bits[TYPES] = {53, 24, 11, 8};
    static const int least[TYPES] = {-1021, -125, -13, -125};
    int e;
    (void)frexp(v, &e);
    e = e < least[type] ? least[type] : e;
    return ldexp(1, e - bits[type] - 1);
}

/* How many of the golden values are not ours rounded once. */
static int wrong_values(const struct golden *g, const struct hf_dir *h,
                        const char *prefix, int type, int *ret_n)
{
    int wrong = 0;
    *ret_n = 0;
    for (size_t f = 0; f < hf_file_count(h); f++)
        for (size_t i = 0; i < hf_file_tensors(h, f)->n; i++) {
            const struct st_tensor *t = &hf_file_tensors(h, f)->tensors[i];
            const int64_t n = (int64_t)t->bytes / st_types[t->type].bytes;
            char line[200];
            size_t k;
            (void)snprintf(line, sizeof(line), "%s %s", prefix, t->name);
            double *want = golden_get(g, line, &k);
            wrong += k != 4 || t->type != st_of[type];
            for (size_t j = 0; j < k; j++, ++*ret_n) {
                double is;
                hf_copy(t, (int64_t)j * (n - 1) / 3, 1, DT_F64, &is);
                /* PEFT's own sum of doubles is in another order. */
                const double allowed =
                    half_step(type, want[j]) + 4e-16 * fabs(want[j]) + 1e-16;
                wrong += !(fabs(is - want[j]) <= allowed);
            }
            free(want);
        }
    return wrong;
}

static void test_golden(const struct golden *g, const struct places *p,
                        const char *model, const char *adapter, int type)
{
    struct error err = ERROR_INIT;
    struct llama_merged m = {.linears = 0};
    struct hf_dir *h = NULL;
    char path[4096], prefix[80];
    int n = 0;
    const bool is_tied =
        strcmp(model, "tied") == 0 || strcmp(model, "qwen2") == 0;
    const bool unties = strcmp(adapter, "adapter-output") == 0 && is_tied;
    adapter_path(model, adapter, path);
    make_base(p, model, type, 0);
    const struct llama_merge conf = {p->base.path, path, p->out};
    (void)snprintf(prefix, sizeof(prefix), "%s %s %s", model, adapter,
                   types[type]);
    if (!ok(llama_merge(&conf, &m, &err) == 0, "%s: %s", prefix, err.msg) ||
        !ok(hf_open(p->out, NULL, &h, &err) == 0, "it is read: %s", err.msg))
        return;
    const int wrong = wrong_values(g, h, prefix, type, &n);
    ok(wrong == 0 && n > 70, "%d values are PEFT's, rounded once (%d not)", n,
       wrong);
    ok(m.is_untied == unties &&
           (hf_find(h, "lm_head.weight") != NULL) == (unties || !is_tied),
       "tied stays tied, unless the output layer has an adapter");
    hf_close(h);
    remove_out(p);
}

/* ---- files --------------------------------------------------------------- */

static bool same_files(const struct hf_dir *a, const struct hf_dir *b)
{
    bool same = hf_file_count(a) == hf_file_count(b);
    for (size_t f = 0; same && f < hf_file_count(a); f++) {
        const struct safetensors *x = hf_file_tensors(a, f);
        const struct safetensors *y = hf_file_tensors(b, f);
        same =
            x->n == y->n && strcmp(hf_file_name(a, f), hf_file_name(b, f)) == 0;
        for (size_t i = 0; same && i < x->n; i++)
            same = strcmp(x->tensors[i].name, y->tensors[i].name) == 0;
    }
    return same;
}

static void test_files(const struct places *p)
{
    struct error err = ERROR_INIT;
    struct llama_merged m = {.linears = 0};
    struct hf_dir *a = NULL, *b = NULL;
    struct model_dir out;
    char path[4096], file[512];
    make_base(p, "untied", 2, 6000);
    model_dir_text(&p->base, "tokenizer.json", "{}");
    (void)mkdir(model_dir_file(&p->base, "original", file), 0700);
    model_dir_text(&p->base, "original/tokenizer.model", "ranks");
    adapter_path("untied", "adapter", path);
    const struct llama_merge conf = {p->base.path, path, p->out};
    if (!ok(llama_merge(&conf, &m, &err) == 0, "shards: %s", err.msg) ||
        hf_open(p->base.path, NULL, &a, &err) < 0 ||
        hf_open(p->out, NULL, &b, &err) < 0)
        abort();
    ok(hf_file_count(a) > 3 && m.files == hf_file_count(a) && same_files(a, b),
       "%zu files with the tensors of the base in its order", hf_file_count(a));
    hf_close(a);
    hf_close(b);
    (void)snprintf(out.path, sizeof(out.path), "%s", p->out);
    ok(model_dir_is(&out, "tokenizer.json", "{}") &&
           model_dir_is(&out, "original/tokenizer.model", "ranks") &&
           model_dir_has(&out, "config.json"),
       "the configuration and both tokenizers are copied");
    ok(access(p->partial, F_OK) < 0, "nothing else is there");

    err = (struct error)ERROR_INIT;
    is_int(llama_merge(&conf, &m, &err), -1, "a directory with files");
    is_int(err.code, ERR_STATE, err.msg);
    ok(model_dir_is(&out, "tokenizer.json", "{}"), "stays as it was");
    remove_out(p);
    if (mkdir(p->out, 0700) < 0)
        abort();
    ok(llama_merge(&conf, &m, &err) == 0, "an empty directory is taken");
    remove_out(p);
}

/* ---- refusals ------------------------------------------------------------ */

static void refused(const struct places *p, const char *adapter,
                    const char *what, const char *text)
{
    struct error err = ERROR_INIT;
    struct llama_merged m;
    const struct llama_merge conf = {p->base.path, adapter, p->out};
    const int rc = llama_merge(&conf, &m, &err);
    ok(rc < 0 && err.code == ERR_INVAL && strstr(err.msg, text) != NULL &&
           access(p->out, F_OK) < 0 && access(p->partial, F_OK) < 0,
       "%s: %s", what, err.msg);
    if (rc == 0)
        remove_out(p);
}

/* Sets value `at` of a tensor, of four bytes or two or eight, in its file. */
static void spoil(const struct model_dir *d, const char *name,
                  const char *tensor, const void *value, size_t bytes)
{
    char path[512];
    struct safetensors s;
    struct error err = ERROR_INIT;
    int fd = -1;
    if (safetensors_open(model_dir_file(d, name, path), 1 << 20, &s, &err) < 0)
        abort();
    const struct st_tensor *t = safetensors_find(&s, tensor);
    if (t == NULL || (fd = open(path, O_WRONLY)) < 0 ||
        pwrite(fd, value, bytes,
               (const char *)t->data - (const char *)s.map +
                   (off_t)(5 * bytes)) != (ssize_t)bytes)
        abort();
    (void)close(fd);
    safetensors_close(&s);
}

static void copy_adapter(const struct model_dir *to, const char *from)
{
    static const char *const names[] = {"adapter_config.json",
                                        "adapter_model.safetensors"};
    char path[4200];
    for (int i = 0; i < 2; i++) {
        struct buf b = BUF_INIT;
        (void)snprintf(path, sizeof(path), "%s/%s", from, names[i]);
        if (buf_read_file(&b, path, 1 << 20, NULL) < 0)
            abort();
        model_dir_put(to, names[i], b.data, b.len);
        buf_clear(&b);
    }
}

static void test_refusals(const struct places *p)
{
    static const char a_name[] =
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
    static const char q_name[] = "model.layers.0.self_attn.q_proj.weight";
    const double nan64 = NAN, huge = 1e6;
    const uint16_t nan16 = 0x7fc0, inf16 = 0x7f80;
    struct model_dir a;
    char path[4096];
    struct buf text = BUF_INIT;
    model_dir_init(&a);
    adapter_path("untied", "adapter", path);

    make_base(p, "untied", 3, 0);
    copy_adapter(&a, path);
    spoil(&a, "adapter_model.safetensors", a_name, &nan64, sizeof(nan64));
    refused(p, a.path, "NaN in the adapter", "value 5 of 'base_model");
    copy_adapter(&a, path);
    spoil(&p->base, "model.safetensors", q_name, &nan16, sizeof(nan16));
    refused(p, a.path, "NaN in the base", "value 5 of 'model.layers.0");
    make_base(p, "untied", 3, 0);
    spoil(&p->base, "model.safetensors", "model.norm.weight", &inf16,
          sizeof(inf16));
    refused(p, a.path, "infinite, where no adapter is", "infinite");

    make_base(p, "untied", 2, 0);
    spoil(&a, "adapter_model.safetensors", a_name, &huge, sizeof(huge));
    refused(p, a.path, "too large for fp16", "in F16, the type of the base");

    copy_adapter(&a, path);
    if (buf_read_file(&text, model_dir_file(&a, "adapter_config.json", path),
                      1 << 20, NULL) < 0)
        abort();
    char *at = strstr(text.data, "\"q_proj\"");
    if (at == NULL)
        abort();
    at[1] = 'v';
    model_dir_text(&a, "adapter_config.json", text.data);
    refused(p, a.path, "a tensor without a linear", "q_proj.lora_");
    buf_clear(&text);
    make_base(p, "tied", 3, 0);
    adapter_path("untied", "adapter", path);
    refused(p, path, "the adapter of another model", "expected a tensor [");
    model_dir_clear(&a);
}

/* PEFT's copy of the frozen output layer beside an adapter, in the type of the
 * tests' bases, its last value times `factor`. */
static void add_copy(const struct model_dir *to, const char *from_dir,
                     const struct st_tensor *head, double factor)
{
    char path[4200], out[512];
    struct safetensors s;
    struct st_writer w;
    const int64_t n = head->shape[0] * head->shape[1];
    double *values = calloc((size_t)n, sizeof(*values));
    (void)snprintf(path, sizeof(path), "%s/adapter_model.safetensors",
                   from_dir);
    int fd = open(model_dir_file(to, "adapter_model.safetensors", out),
                  O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (values == NULL || fd < 0 ||
        safetensors_open(path, 1 << 20, &s, NULL) < 0)
        abort();
    hf_copy(head, 0, n, DT_F64, values);
    values[n - 1] *= factor;
    safetensors_writer_init(&w, fd);
    int rc = 0;
    for (size_t i = 0; i < s.n && rc == 0; i++)
        rc = safetensors_declare(&w, s.tensors[i].name, s.tensors[i].type,
                                 s.tensors[i].shape, s.tensors[i].dims, NULL);
    if (rc < 0 ||
        safetensors_declare(&w, head_copy, ST_F64, head->shape, 2, NULL) < 0 ||
        safetensors_begin(&w, NULL) < 0)
        abort();
    for (size_t i = 0; i < s.n && rc == 0; i++)
        rc = st_write(&w, s.tensors[i].data, s.tensors[i].bytes, NULL);
    if (rc < 0 || st_write(&w, values, (size_t)n * sizeof(*values), NULL) < 0 ||
        safetensors_end(&w, NULL) < 0)
        abort();
    safetensors_writer_clear(&w);
    (void)close(fd);
    safetensors_close(&s);
    free(values);
}

static void merges(const struct places *p, const char *adapter,
                   const char *what)
{
    struct error err = ERROR_INIT;
    struct llama_merged m;
    const struct llama_merge conf = {p->base.path, adapter, p->out};
    ok(llama_merge(&conf, &m, &err) == 0, "%s: %s", what, err.msg);
    remove_out(p);
}

/* Of the embeddings of a tied base, in fp64 and rounded to bf16. */
static void test_copies(const struct places *p)
{
    struct model_dir a;
    char path[4096];
    struct hf_dir *h = NULL;
    model_dir_init(&a);
    adapter_path("tied", "adapter-output", path);
    copy_adapter(&a, path);
    make_base(p, "tied", 0, 0);
    if (hf_open(p->base.path, NULL, &h, NULL) < 0)
        abort();
    const struct st_tensor *embed = hf_find(h, "model.embed_tokens.weight");
    add_copy(&a, path, embed, 1);
    merges(p, a.path, "a copy of the base's output layer");
    hf_close(h);
    make_base(p, "tied", 3, 0);
    merges(p, a.path, "which the base has rounded");
    make_base(p, "tied", 0, 0);
    if (hf_open(p->base.path, NULL, &h, NULL) < 0)
        abort();
    add_copy(&a, path, hf_find(h, "model.embed_tokens.weight"), 1.5);
    refused(p, a.path, "a copy of another base", head_copy);
    hf_close(h);
    model_dir_clear(&a);
}

/* What a file has beside the weights is read, too: it may say that the file is
 * not the model that config.json describes. */
static void test_others(const struct places *p)
{
    static const char buffer[] = "model.layers.0.self_attn.rotary_emb.inv_freq";
    struct llama_config c;
    struct error err = ERROR_INIT;
    char path[4096];
    double freq[64];
    adapter_path("untied", "adapter", path);
    make_base(p, "untied", 0, 0);
    if (llama_config_read(p->base.path, &c, &err) < 0 || c.head_dim > 128)
        abort();
    llama_frequencies(&c, freq);
    for (int i = 1; i < c.head_dim / 2; i++) /* of another rope_theta */
        freq[i] *= 0.9;
    make_base_more(p, "untied", 0, 0,
                   (struct copy){.more = buffer,
                                 .n = c.head_dim / 2,
                                 .more_values = freq});
    refused(p, path, "frequencies of another rope_theta", "rope_theta");
    llama_frequencies(&c, freq);
    for (int i = 0; i < c.head_dim / 2; i++) /* as bf16 */
        freq[i] *= 1 + 0x1p-8;
    make_base_more(p, "untied", 0, 0,
                   (struct copy){.more = buffer,
                                 .n = c.head_dim / 2,
                                 .more_values = freq});
    merges(p, path, "those of config.json");
}

int main(void)
{
    static const char *const adapters[] = {"adapter", "adapter-some",
                                           "adapter-output"};
    struct places p;
    struct golden g;
    golden_open(&g, "tests/golden/merge.txt");
    model_dir_init(&p.base);
    model_dir_init(&p.top);
    (void)snprintf(p.out, sizeof(p.out), "%.60s/m", p.top.path);
    (void)snprintf(p.partial, sizeof(p.partial), "%.60s/m.partial", p.top.path);
    for (int i = 0; i < 3; i++)
        for (int type = 0; type < TYPES; type++) {
            test_golden(&g, &p, "tied", adapters[i], type);
            test_golden(&g, &p, "untied", adapters[i], type);
        }
    golden_close(&g);
    golden_open(&g, "tests/golden/archs.txt");
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
        test_golden(&g, &p, archs[i], "adapter", 1);
    golden_close(&g);
    golden_open(&g, "tests/golden/patterns.txt");
    for (size_t i = 0; i < sizeof(ranked) / sizeof(ranked[0]); i++)
        test_golden(&g, &p, "mistral", ranked[i], 1);
    test_files(&p);
    test_refusals(&p);
    test_copies(&p);
    test_others(&p);
    model_dir_clear(&p.base);
    model_dir_clear(&p.top);
    golden_close(&g);
    return tap_done();
}
