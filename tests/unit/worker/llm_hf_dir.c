/* llm_hf_dir.c - model directories that are right, and those that are not; what
 * a model needs of one; and values in each type. */
#include "worker/llm/files/hf_dir.h"

#include <math.h>
#include <sys/stat.h>

#include "jobs/base/rng.h"
#include "tests/tap.h"
#include "tests/unit/worker/llm_files.h"

static const char index_name[] = "model.safetensors.index.json";
static const char one[] = "model-00001-of-00002.safetensors";
static const char two[] = "model-00002-of-00002.safetensors";

#define INDEX(map) "{\"metadata\":{\"total_size\":96},\"weight_map\":{" map "}}"
#define IN_ONE(name) "\"" name "\":\"model-00001-of-00002.safetensors\""
#define IN_TWO(name) "\"" name "\":\"model-00002-of-00002.safetensors\""

static void refused(const struct model_dir *d, const struct spec_list *files,
                    enum err_code code, const char *w1, const char *w2)
{
    struct error err = ERROR_INIT;
    struct hf_dir *h = NULL;
    int rc = hf_open(d->path, files, &h, &err);
    ok(rc < 0 && h == NULL && err.code == code && strstr(err.msg, w1) != NULL &&
           strstr(err.msg, w2) != NULL,
       "refused: %s", err.msg);
    hf_close(h);
}

static struct hf_dir *opened(const struct model_dir *d,
                             const struct spec_list *files)
{
    struct error err = ERROR_INIT;
    struct hf_dir *h = NULL;
    ok(hf_open(d->path, files, &h, &err) == 0, "open: %s", err.msg);
    return h;
}

static float first_of(const struct hf_dir *h, const char *name)
{
    float f = NAN;
    const struct st_tensor *t = h != NULL ? hf_find(h, name) : NULL;
    if (t != NULL)
        hf_copy(t, 0, 1, DT_F32, &f);
    return f;
}

/* Two shards: a and c in the first, b in the second. */
static void put_shards(const struct model_dir *d)
{
    model_dir_empty(d);
    model_dir_tensors(d, one, (const char *const[]){"a", "c", NULL}, 2, 4, 1);
    model_dir_tensors(d, two, (const char *const[]){"b", NULL}, 2, 4, 100);
    model_dir_text(d, index_name,
                   INDEX(IN_ONE("a") "," IN_TWO("b") "," IN_ONE("c")));
}

static void test_open(const struct model_dir *d)
{
    char x[] = "x.safetensors", y[] = "y.safetensors";
    char *names[] = {x, y};
    struct spec_list files = {names, 2};
    put_shards(d);
    struct hf_dir *h = opened(d, NULL);
    ok(first_of(h, "a") == 1 && first_of(h, "b") == 100 &&
           first_of(h, "c") == 9,
       "the tensors of both shards");
    ok(h == NULL || hf_find(h, "d") == NULL, "no other");
    hf_close(h);

    model_dir_empty(d);
    model_dir_tensors(d, "model.safetensors", (const char *const[]){"a", NULL},
                      2, 2, 7);
    h = opened(d, &(struct spec_list){NULL, 0});
    ok(first_of(h, "a") == 7, "one file without an index");
    hf_close(h);
    model_dir_text(d, index_name,
                   "{\"weight_map\":{\"a\":\"model.safetensors\"}}");
    h = opened(d, NULL);
    ok(first_of(h, "a") == 7, "or with one");
    hf_close(h);

    model_dir_tensors(d, "x.safetensors", (const char *const[]){"x", NULL}, 2,
                      2, 8);
    model_dir_tensors(d, "y.safetensors", (const char *const[]){"y", NULL}, 2,
                      2, 9);
    h = opened(d, &files);
    ok(first_of(h, "x") == 8 && first_of(h, "y") == 9 &&
           hf_find(h, "a") == NULL,
       "files by name, and no others");
    hf_close(h);
    files.n = 1;
    h = opened(d, &files);
    ok(first_of(h, "x") == 8 && hf_find(h, "y") == NULL, "one of them");
    hf_close(h);
    hf_close(NULL);
}

static void test_nothing(const struct model_dir *d)
{
    char x[] = "x.safetensors", above[] = "../x.safetensors", y[] = "../y";
    char *names[] = {x, y};
    struct spec_list files = {names, 1};
    struct model_dir none = {"/tmp/mgpu-model-none"};
    char path[512];
    model_dir_empty(d);
    refused(&none, NULL, ERR_NOTFOUND, none.path, "No such file");
    refused(d, NULL, ERR_NOTFOUND, "model.safetensors", d->path);
    refused(d, &files, ERR_NOTFOUND, "x.safetensors", "No such file");
    model_dir_text(d, "pytorch_model.bin", "");
    refused(d, NULL, ERR_NOTFOUND, "'pytorch_model.bin'", "convert");
    model_dir_text(d, "consolidated.safetensors", "");
    refused(d, NULL, ERR_NOTFOUND, "'consolidated.safetensors'",
            "checkpoint_files");
    model_dir_tensors(d, "x.safetensors", (const char *const[]){"x", NULL}, 2,
                      2, 8);
    names[0] = above;
    refused(d, &files, ERR_INVAL, "'../x.safetensors'", "not the name");
    names[0] = x;
    files.n = 2;
    refused(d, &files, ERR_INVAL, "'../y'", "not the name");
    names[1] = names[0];
    refused(d, &files, ERR_INVAL, "'x.safetensors'", "twice");
    (void)snprintf(none.path, sizeof(none.path), "%.24s/f", d->path);
    model_dir_text(d, "f", "");
    refused(&none, NULL, ERR_NOTFOUND, none.path, "not a directory");
    model_dir_empty(d);
    if (mkfifo(model_dir_file(d, "model.safetensors", path), 0600) == 0)
        refused(d, NULL, ERR_INVAL, "model.safetensors", "regular file");
}

static void test_index(const struct model_dir *d)
{
    static const struct {
        const char *text, *w1, *w2;
    } bad[] = {
        {"", "index.json", "line"},
        {"{\"weight_map\":{", "index.json", "line"},
        {"[]", "weight_map", "object"},
        {"{}", "weight_map", "object"},
        {"{\"weight_map\":[]}", "weight_map", "object"},
        {INDEX(""), "weight_map", "with tensors"},
        {INDEX("\"a\":7"), "'a'", "name of a file"},
        {INDEX("\"a\":\"\""), "'a'", "not the name"},
        {INDEX("\"a\":\"../a.safetensors\""), "'../a.safetensors'",
         "not the name"},
        {INDEX("\"a\":\"/etc/passwd\""), "'/etc/passwd'", "not the name"},
        {INDEX("\"a\":\"..\""), "'..'", "not the name"},
        {INDEX(IN_ONE("a") "," IN_ONE("a")), "index.json", "line 1"},
        {INDEX(IN_ONE("a") "," IN_TWO("b")), "tensor 'c'", "is not in it"},
        {INDEX(IN_ONE("a") "," IN_ONE("b") "," IN_ONE("c") "," IN_TWO("d")),
         "tensor 'b'", "is not in 'model-00001"},
        {INDEX(IN_ONE("a") "," IN_TWO("b") "," IN_ONE("c") "," IN_ONE("d")),
         "tensor 'd'", "is not in 'model-00001"},
        {INDEX(IN_ONE("a") "," IN_ONE("c")), "tensor 'b'", "not in"},
        {INDEX(IN_ONE("a") "," IN_TWO("b") ",\"c\":\"model-3.safetensors\""),
         "model-3.safetensors", "No such file"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put_shards(d);
        model_dir_text(d, index_name, bad[i].text);
        if (i == 15) /* all of the index is there, a shard has more */
            model_dir_tensors(
                d, one, (const char *const[]){"a", "b", "c", NULL}, 2, 4, 1);
        refused(d, NULL, ERR_INVAL, bad[i].w1, bad[i].w2);
    }
    put_shards(d);
    model_dir_tensors(d, two, (const char *const[]){"b", "a", NULL}, 2, 4, 1);
    refused(d, NULL, ERR_INVAL, "tensor 'a' is in 'model-0000",
            "and in 'model-0000");
    put_shards(d);
    model_dir_tensors(d, "model.safetensors", (const char *const[]){"a", NULL},
                      2, 4, 1);
    refused(d, NULL, ERR_INVAL, "index of other files", "checkpoint_files");
}

/* Each prefix of a shard, and one with another's size. */
static void test_damage(const struct model_dir *d)
{
    char path[512];
    struct buf good = BUF_INIT;
    struct hf_dir *h = NULL;
    int taken = 0, silent = 0;
    put_shards(d);
    if (buf_read_file(&good, model_dir_file(d, two, path), 1 << 20, NULL) < 0)
        abort();
    for (size_t n = 0; n < good.len; n++) {
        struct error err = ERROR_INIT;
        model_dir_put(d, two, good.data, n);
        taken += hf_open(d->path, NULL, &h, &err) == 0;
        silent += err.code != ERR_INVAL || strstr(err.msg, two) == NULL;
    }
    is_int(taken, 0, "no prefix of a shard is taken");
    is_int(silent, 0, "and each error names it");
    if (buf_addstr(&good, "more", NULL) < 0)
        abort();
    model_dir_put(d, two, good.data, good.len);
    refused(d, NULL, ERR_INVAL, two, "4 bytes of data");
    model_dir_put(d, two, "\0\0\0\0\0\0\0\x7f{}", 10);
    refused(d, NULL, ERR_INVAL, two, "a header of");
    model_dir_put(d, two, "\x02\0\0\0\0\0\0\0]]", 10);
    refused(d, NULL, ERR_INVAL, two, "header");
    buf_clear(&good);
}

/* ---- what a model needs ---------------------------------------------------
 */

static void fits(const struct hf_dir *h, const struct hf_want *want, int32_t n,
                 const char *tied_to, const char *what)
{
    struct error err = ERROR_INIT;
    ok(hf_check(h, want, n, tied_to, &err) == 0, "%s: %s", what, err.msg);
}

static void does_not_fit(const struct hf_dir *h, const struct hf_want *want,
                         int32_t n, const char *tied_to, const char *text)
{
    struct error err = ERROR_INIT;
    int rc = hf_check(h, want, n, tied_to, &err);
    is_int(rc, -1, "it does not fit");
    is_int(err.code, ERR_INVAL, "as an argument");
    is_str(err.msg, text, "the message");
}

static void test_check(const struct model_dir *d)
{
    const struct hf_want want[] = {
        {"a", 2, {2, 4}},
        {"b", 2, {2, 4}},
        {"c", 2, {2, 4}},
    };
    struct hf_want wrong[] = {
        {"a", 2, {4, 2}}, {"b", 1, {8}}, {"d", 2, {2, 4}}, {"c", 0, {0}}};
    put_shards(d);
    struct hf_dir *h = opened(d, NULL);
    if (h == NULL)
        return;
    fits(h, want, 3, NULL, "all is there");
    does_not_fit(h, want, 2, NULL,
                 "1 tensor does not fit config.json: left over 'c'");
    does_not_fit(h, wrong, 4, NULL,
                 "4 tensors do not fit config.json: 'a' is 2x4, not 4x2, 'b' "
                 "is 2x4, not 8, no 'd', 'c' is 2x4, not a scalar");
    hf_close(h);

    static const char *const more[] = {"a", "lm_head.weight",
                                       "layers.0.rotary_emb.inv_freq", NULL};
    model_dir_empty(d);
    model_dir_tensors(d, "model.safetensors", more, 2, 4, 1);
    h = opened(d, NULL);
    if (h == NULL)
        return;
    does_not_fit(h, want, 1, "a",
                 "config.json says tie_word_embeddings: true, but "
                 "'lm_head.weight' has other values than 'a': say false there "
                 "if the output layer is one of its own, or remove the tensor");
    does_not_fit(h, want, 1, NULL,
                 "1 tensor does not fit config.json: left over "
                 "'lm_head.weight'");
    hf_close(h);
}

/* Embeddings in fp32, and an output layer in another type. */
static void put_pair(const struct model_dir *d, const float *embed,
                     enum st_type type, const double *head)
{
    const int64_t shape[] = {2, 2};
    const enum dtype dt = hf_dtype(type);
    char path[512];
    double out[4];
    struct st_writer w;
    model_dir_empty(d);
    int fd = open(model_dir_file(d, "model.safetensors", path),
                  O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 4; i++)
        dtype_set(dt, out, i, head[i]);
    safetensors_writer_init(&w, fd);
    if (fd < 0 || safetensors_declare(&w, "a", ST_F32, shape, 2, NULL) < 0 ||
        safetensors_declare(&w, "lm_head.weight", type, shape, 2, NULL) < 0 ||
        safetensors_begin(&w, NULL) < 0 ||
        st_write(&w, embed, 4 * sizeof(*embed), NULL) < 0 ||
        st_write(&w, out, 4 * dtype_bytes(dt), NULL) < 0 ||
        safetensors_end(&w, NULL) < 0)
        abort();
    safetensors_writer_clear(&w);
    (void)close(fd);
}

static void test_tied(const struct model_dir *d)
{
    static const char other[] =
        "config.json says tie_word_embeddings: true, but 'lm_head.weight' has "
        "other values than 'a': say false there if the output layer is one of "
        "its own, or remove the tensor";
    static const enum st_type types[] = {ST_F64, ST_F32, ST_F16, ST_BF16};
    const struct hf_want want[] = {{"a", 2, {2, 2}}};
    const float embed[] = {1, -2, 0.1f, 3.3e-5f};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        for (int is_other = 0; is_other < 2; is_other++) {
            double head[] = {1, -2, embed[2], embed[3]};
            head[3] *= 1 + 0.125 * is_other;
            put_pair(d, embed, types[i], head);
            struct hf_dir *h = opened(d, NULL);
            if (h == NULL)
                return;
            if (is_other)
                does_not_fit(h, want, 1, "a", other);
            else
                fits(h, want, 1, "a", st_types[types[i]].word);
            hf_close(h);
        }
    /* Values that the embeddings cannot hold are other values. */
    const double more[] = {1 + 0x1p-40, -2, embed[2], embed[3]};
    put_pair(d, embed, ST_F64, more);
    struct hf_dir *h = opened(d, NULL);
    if (h != NULL)
        does_not_fit(h, want, 1, "a", other);
    hf_close(h);
}

/* Integers are no weights; long lists end. */
static void test_list(const struct model_dir *d)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"I8\",\"shape\":[8],\"data_offsets\":[0,8]}}";
    struct buf b = BUF_INIT;
    struct hf_want want[40];
    char names[40][80];
    uint64_t len = sizeof(header) - 1;
    model_dir_empty(d);
    if (buf_add(&b, &len, 8, NULL) < 0 || buf_addstr(&b, header, NULL) < 0 ||
        buf_add(&b, "12345678", 8, NULL) < 0)
        abort();
    model_dir_put(d, "model.safetensors", b.data, b.len);
    buf_clear(&b);
    struct hf_dir *h = opened(d, NULL);
    if (h == NULL)
        return;
    want[0] = (struct hf_want){"a", 1, {8}};
    does_not_fit(h, want, 1, NULL,
                 "1 tensor does not fit config.json: 'a' is of type I8");
    for (int i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i);
        want[i] = (struct hf_want){names[i], 1, {8}};
    }
    does_not_fit(h, want, 16, NULL,
                 "17 tensors do not fit config.json: no 't0', no 't1', no "
                 "'t2', no 't3', no 't4', no 't5', no 't6', no 't7', no 't8', "
                 "no 't9' and 7 more");
    for (int i = 0; i < 40; i++)
        (void)snprintf(names[i], sizeof(names[i]),
                       "model.layers.%d.post_attention_layernorm.weight", i);
    does_not_fit(h, want, 40, NULL,
                 "41 tensors do not fit config.json: no "
                 "'model.layers.0.post_attention_layernorm.weight', no "
                 "'model.layers.1.post_attention_layernorm.weight' and 39 "
                 "more");
    hf_close(h);
}

/* ---- values ---------------------------------------------------------------
 */

static const double samples[] = {
    0.0, -0.0, 1, -1, 0.1, 1.0 / 3, 65504, 65519.9999, 65520, -65536, 1e-7,
    5.9604644775390625e-8, 2.98023223876953125e-8, 2.9802322387695316e-8, 1e39,
    -1e300, 1e-45, 3.4028235677973366e38,
    /* ties of fp16, to the even below and above, and just beside them */
    1 + 0x1p-11, 1 + 3 * 0x1p-11, 1 + 0x1p-11 + 0x1p-40,
    1 + 3 * 0x1p-11 - 0x1p-40,
    /* of bf16 */
    1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 3 * 0x1p-8 - 0x1p-40,
    /* of fp32 */
    1 + 0x1p-24, 1 + 3 * 0x1p-24, 1 + 0x1p-24 + 0x1p-50, INFINITY, -INFINITY};
enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

/* v, rounded to `bits` bits of fraction with exponents from `least` on: by
 * scaling and nearbyint(), which rounds ties to even. */
static double rounded(double v, int bits, int least, double largest)
{
    int e = 0;
    if (v == 0 || isinf(v))
        return v;
    (void)frexp(v, &e); /* 2^(e-1) <= |v| < 2^e */
    e = e - 1 < least ? least : e - 1;
    double r = ldexp(nearbyint(ldexp(v, bits - e)), e - bits);
    return fabs(r) > largest ? copysign(INFINITY, v) : r;
}

static double as_type(double v, enum dtype dt)
{
    switch (dt) {
    case DT_F32:
        return rounded(v, 23, -126, 3.4028234663852886e38);
    case DT_F16:
        return rounded(v, 10, -14, 65504);
    case DT_BF16:
        return rounded(v, 7, -126, 0x1.fep127);
    default:
        return v;
    }
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void test_copy(void)
{
    static const enum st_type types[] = {ST_F64, ST_F32, ST_F16, ST_BF16};
    static const enum dtype dts[] = {DT_F64, DT_F32, DT_F16, DT_BF16};
    enum { N = 1000 };
    char data[N * 8 + 1], out[N * 8 + 9];
    double v[N];
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < N; i++)
        v[i] = i < SAMPLES ? samples[i]
                           : ldexp(rng_uniform(&rng) - 0.5,
                                   (int)(rng_u32(&rng) % 60) - 40);
    for (int a = 0; a < 4; a++) {
        struct st_tensor t = {.type = types[a],
                              .dims = 1,
                              .shape = {N},
                              .bytes = N * (size_t)st_types[types[a]].bytes,
                              .data = data + 1}; /* not aligned */
        for (int i = 0; i < N; i++)
            dtype_set(dts[a], data + 1, i, v[i]);
        for (int b = 0; b < 4; b++) {
            int wrong = 0;
            hf_copy(&t, 0, N, dts[b], out + 1);
            for (int i = 0; i < N; i++)
                wrong += !same(dtype_get(dts[b], out + 1, i),
                               as_type(as_type(v[i], dts[a]), dts[b]));
            is_int(wrong, 0, "values in another type");
            if (wrong > 0)
                tap_diag("%s to %s", dtype_name(dts[a]), dtype_name(dts[b]));
            memset(out, 0x55, sizeof(out));
            hf_copy(&t, 300, 301, dts[b], out);
            size_t end = 301 * dtype_bytes(dts[b]);
            wrong = out[end] != 0x55;
            for (int i = 0; i < 301; i++)
                wrong += !same(dtype_get(dts[b], out, i),
                               as_type(as_type(v[300 + i], dts[a]), dts[b]));
            is_int(wrong, 0, "a part of them, and no byte more");
            hf_copy(&t, N, 0, dts[b], out);
        }
    }
    uint16_t nan16 = 0x7e01;
    struct st_tensor t = {
        .type = ST_F16, .dims = 0, .bytes = 2, .data = &nan16};
    for (int b = 0; b < 4; b++) {
        hf_copy(&t, 0, 1, dts[b], out);
        ok(isnan(dtype_get(dts[b], out, 0)), "a NaN stays one in %s",
           dtype_name(dts[b]));
    }
}

/* Each place of the first of two values that are none, across blocks. */
static void test_not_finite(void)
{
    enum { N = 600 };
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    static unsigned char data[N * 8];
    for (int b = 0; b < DT_N; b++) {
        int wrong = 0;
        for (int i = 0; i < N; i++)
            dtype_set((enum dtype)b, data, i, i % 2 ? -65504 : 6e-8);
        is_int(hf_not_finite((enum dtype)b, data, N), -1, "all are numbers");
        for (int i = 0; i < N; i++) {
            const double v = dtype_get((enum dtype)b, data, i);
            const int64_t want = i < N - 1 ? i : -1;
            dtype_set((enum dtype)b, data, i, bad[i % 3]);
            wrong += hf_not_finite((enum dtype)b, data, N - 1) != want;
            dtype_set((enum dtype)b, data, i, v);
        }
        is_int(wrong, 0, dtype_name((enum dtype)b));
    }
}

int main(void)
{
    struct model_dir d;
    test_not_finite();
    model_dir_init(&d);
    test_open(&d);
    test_nothing(&d);
    test_index(&d);
    test_damage(&d);
    test_check(&d);
    test_tied(&d);
    test_list(&d);
    test_copy();
    model_dir_clear(&d);
    return tap_done();
}
