/* layouts.c - the two layouts of a checkpoint: the one that is written, with
 * train/, and the one of earlier versions, which is read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/llm_drawn.h"
#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/checkpoint/crc64.h"
#include "worker/llm/files/adapter_file.h"

static char dir[] = "/tmp/mgpu-layouts.XXXXXX";
static char base[64];

static const struct llama_config small = {.vocab = 11,
                                          .hidden = 8,
                                          .ffn = 12,
                                          .layers = 2,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .head_dim = 4,
                                          .max_positions = 16,
                                          .norm_eps = 1e-5,
                                          .rope_theta = 10000};

static double drawn(const struct llama_tensor *t, int32_t k, int64_t i)
{
    (void)t;
    return 0.01 * (double)((k * 31 + i * 7) % 19 - 9);
}

/* ---- a world: a model, and an array of an optimizer ---------------------- */

struct world {
    struct device *dev;
    struct model *model;
    struct checkpoint_parts parts;
    float array[4];
};

static void open_world(struct world *w, bool is_full, const char *of)
{
    struct error err = ERROR_INIT;
    struct llama_conf c = {.dt = DT_F32,
                           .is_full = is_full,
                           .rank = is_full ? 0 : 2,
                           .alpha = is_full ? 0 : 4,
                           .targets = is_full ? 0 : LORA_Q | LORA_V,
                           .batch = 1,
                           .batch_eval = 1,
                           .row_tokens = 4,
                           .dir = of};
    memset(w, 0, sizeof(*w));
    must(device_host_create(1, &w->dev, &err), &err);
    must(llama_config_read(of, &c.shape, &err), &err);
    must(llama_create(w->dev, &c, &w->model, &err), &err);
    must(model_init(w->model, 1, &err), &err);
    for (int i = 0; i < 4; i++)
        w->array[i] = (float)i + 0.5F;
    w->parts = (struct checkpoint_parts){
        .dev = w->dev,
        .model = w->model,
        .dt = DT_F32,
        .n = 1,
        .arrays = {{.name = "momentum_buffer", .data = w->array, .n = 4}}};
}

static void close_world(struct world *w)
{
    model_destroy(w->model);
    w->dev->ops->destroy(w->dev);
}

/* Host memory: the test may look. */
static void shift(struct world *w, float by)
{
    float *p = model_params(w->model);
    const int64_t n = model_planned(w->model)->params;
    for (int64_t i = 0; i < n; i++)
        p[i] += by;
}

static float first(struct world *w)
{
    return *(const float *)model_params(w->model);
}

static const struct checkpoint_state state = {.iteration = 3,
                                              .done = 3,
                                              .epoch = 1,
                                              .ranks = 1,
                                              .global_batch = 1,
                                              .loss_scale = {1, 0}};

static void save(struct world *w)
{
    struct error err = ERROR_INIT;
    must(checkpoint_save(dir, &state, &w->parts, 2, &err), &err);
}

static bool has(const char *name)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/step-3/%s", dir, name);
    return access(path, F_OK) == 0;
}

static int load(struct world *w, struct error *err)
{
    struct buf skipped = BUF_INIT;
    struct checkpoint_state s = {.iteration = -1};
    const int rc = checkpoint_load(dir, &w->parts, &s, &skipped, err);
    if (skipped.len > 0)
        tap_diag("%s", buf_str(&skipped));
    buf_clear(&skipped);
    return rc == 0 && s.iteration == 3 ? 0 : -1;
}

/* ---- the layout of earlier versions -------------------------------------- */

static void move(const char *from, const char *to)
{
    char a[160], b[160];
    (void)snprintf(a, sizeof(a), "%s/step-3/%s", dir, from);
    (void)snprintf(b, sizeof(b), "%s/step-3/%s", dir, to);
    if (rename(a, b) < 0)
        abort();
}

static uint64_t sum_of(const char *name)
{
    struct error err = ERROR_INIT;
    struct buf path = BUF_INIT, text = BUF_INIT;
    must(buf_addf(&path, &err, "%s/step-3/%s", dir, name), &err);
    must(buf_read_file(&text, buf_str(&path), 1 << 20, &err), &err);
    const uint64_t crc = crc64(0, buf_str(&text), text.len);
    buf_clear(&path);
    buf_clear(&text);
    return crc;
}

static void declare(struct st_writer *w, const struct st_tensor *t)
{
    struct error err = ERROR_INIT;
    must(safetensors_declare(w, t->name, t->type, t->shape, t->dims, &err),
         &err);
}

/* model.safetensors of an adapter as it was: with the digest in it. */
static void join_digest(void)
{
    static const char mark[] = "base_model.digest";
    struct error err = ERROR_INIT;
    struct safetensors model, optim;
    struct st_writer w;
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/step-3/train/optim.safetensors",
                   dir);
    must(safetensors_open(path, 1 << 20, &optim, &err), &err);
    (void)snprintf(path, sizeof(path), "%s/step-3/adapter_model.safetensors",
                   dir);
    must(safetensors_open(path, 1 << 20, &model, &err), &err);
    (void)snprintf(path, sizeof(path), "%s/step-3", dir);
    FILE *f = llm_create_file(path, "model.safetensors");
    const struct st_tensor *digest = safetensors_find(&optim, mark);
    safetensors_writer_init(&w, fileno(f));
    for (size_t i = 0; i < model.n; i++)
        declare(&w, &model.tensors[i]);
    declare(&w, digest);
    must(safetensors_begin(&w, &err), &err);
    for (size_t i = 0; i < model.n; i++)
        must(st_write(&w, model.tensors[i].data, model.tensors[i].bytes, &err),
             &err);
    must(st_write(&w, digest->data, digest->bytes, &err), &err);
    must(safetensors_end(&w, &err), &err);
    safetensors_writer_clear(&w);
    (void)fclose(f);
    f = llm_create_file(path, "optim.safetensors");
    const struct st_tensor *array = safetensors_find(&optim, "momentum_buffer");
    safetensors_writer_init(&w, fileno(f));
    declare(&w, array);
    must(safetensors_begin(&w, &err), &err);
    must(st_write(&w, array->data, array->bytes, &err), &err);
    must(safetensors_end(&w, &err), &err);
    safetensors_writer_clear(&w);
    (void)fclose(f);
    safetensors_close(&model);
    safetensors_close(&optim);
}

/* The state.json that version 1 wrote for these files. */
static void write_state(void)
{
    char text[600], path[160];
    int n = snprintf(
        text, sizeof(text),
        "{\"version\":1,\"iteration\":3,\"updates\":0,\"epoch\":1,\"batch\":0,"
        "\"seed\":0,\"ranks\":1,\"global_batch\":1,\"batch_size\":0,"
        "\"epoch_s\":0,\"loss_sum\":0,\"samples\":0,\"counted\":0,\"files\":"
        "{\"model.safetensors\":\"%016" PRIx64
        "\",\"optim.safetensors\":\"%016" PRIx64 "\"}",
        sum_of("model.safetensors"), sum_of("optim.safetensors"));
    (void)snprintf(path, sizeof(path), "%s/step-3", dir);
    FILE *f = llm_create_file(path, "state.json");
    (void)fprintf(f, "%s,\"crc64\":\"%016" PRIx64 "\"}\n", text,
                  crc64(0, text, (size_t)n));
    (void)fclose(f);
}

static void remove_new(void)
{
    static const char *const files[] = {
        "train/optim.safetensors", "train/state.json", "train",
        "adapter_model.safetensors", "adapter_config.json"};
    char path[160];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof(path), "%s/step-3/%s", dir, files[i]);
        (void)remove(path);
    }
}

static void make_old(bool is_full)
{
    if (is_full)
        move("train/optim.safetensors", "optim.safetensors");
    else
        join_digest();
    write_state();
    remove_new();
}

/* ---- the cases ------------------------------------------------------------
 */

static void test_old(bool is_full)
{
    struct error err = ERROR_INIT;
    struct world w;
    open_world(&w, is_full, base);
    const float was = first(&w);
    save(&w);
    make_old(is_full);
    shift(&w, 1);
    w.array[2] = 0;
    ok(!has("train") && load(&w, &err) == 0 && first(&w) == was &&
           w.array[2] == 2.5F,
       "%s: a checkpoint of before is read: %s", is_full ? "full" : "lora",
       err.msg);
    save(&w);
    ok(has("train/state.json") && !has("state.json") &&
           !has("optim.safetensors") && load(&w, &err) == 0,
       "  and one of now takes its place: %s", err.msg);
    (void)checkpoint_remove(dir, 3, "", NULL);
    ok(!has(""), "  of which nothing is left when it is removed");
    close_world(&w);
}

static void test_adapter(void)
{
    struct error err = ERROR_INIT;
    struct world w;
    struct adapter_config c = {.rank = 0};
    struct safetensors s = {.n = 0};
    char step[80];
    (void)snprintf(step, sizeof(step), "%s/step-3", dir);
    open_world(&w, false, base);
    save(&w);
    ok(adapter_config_read(step, &c, &err) == 0 && c.rank == 2 &&
           c.alpha == 4 && c.targets == (LORA_Q | LORA_V),
       "the checkpoint of an adapter is PEFT's: %s", err.msg);
    ok(adapter_open(step, &s, &err) == 0 && s.n == 8 &&
           safetensors_find(&s, "base_model.digest") == NULL,
       "  with its tensors alone: %s", err.msg);
    safetensors_close(&s);
    close_world(&w);
    /* Another base. */
    char other[80];
    (void)snprintf(other, sizeof(other), "%s.other", dir);
    if (mkdir(other, 0700) < 0)
        abort();
    llm_write_model(other, &small, drawn);
    char path[120];
    (void)snprintf(path, sizeof(path), "%s/model.safetensors", other);
    FILE *f = fopen(path, "r+b");
    if (f == NULL || fseek(f, -1, SEEK_END) < 0)
        abort();
    const int sign = fgetc(f) ^ 0x80;
    (void)fseek(f, -1, SEEK_END);
    (void)fputc(sign, f);
    (void)fclose(f);
    open_world(&w, false, other);
    ok(load(&w, &err) < 0 && strstr(err.msg, "other base weights") != NULL,
       "  and refused for another base: %s", err.msg);
    close_world(&w);
    llm_remove_model(other);
    (void)checkpoint_remove(dir, 3, "", NULL);
}

/* All weights: a directory of Hugging Face, from which a model is made. */
static void test_full(void)
{
    struct world w, again;
    char step[80];
    (void)snprintf(step, sizeof(step), "%s/step-3", dir);
    open_world(&w, true, base);
    shift(&w, 0.25F);
    save(&w);
    ok(has("config.json") && has("model.safetensors"),
       "the checkpoint of all weights is a model directory");
    open_world(&again, true, step);
    ok(memcmp(model_params(w.model), model_params(again.model),
              (size_t)model_planned(w.model)->params * sizeof(float)) == 0,
       "  that is read as one, to the last bit");
    close_world(&again);
    close_world(&w);
    (void)checkpoint_remove(dir, 3, "", NULL);
    ok(!has("config.json") && !has(""), "  and goes with all of its files");
}

int main(void)
{
    if (mkdtemp(dir) == NULL)
        return 1;
    (void)snprintf(base, sizeof(base), "%s.base", dir);
    if (mkdir(base, 0700) < 0)
        return 1;
    llm_write_model(base, &small, drawn);
    test_old(false);
    test_old(true);
    test_adapter();
    test_full();
    llm_remove_model(base);
    is_int(rmdir(dir), 0, "nothing else is left");
    return tap_done();
}
