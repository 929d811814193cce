/* llm_load.c - a model is loaded piece by piece, with no second copy of it in
 * memory; a weight that is no number is named. */
#include <math.h>

#include "tests/unit/worker/llm_drawn.h"
#include "worker/process/host_memory.h"

/* 31 million values, 123 MB in fp32; a piece is 4 million of them. */
static const struct llama_config config = {.vocab = 60000,
                                           .hidden = 512,
                                           .ffn = 64,
                                           .layers = 1,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_dim = 64,
                                           .max_positions = 64,
                                           .tied = true};

/* All zeros. Returns the bytes of the file's data. */
static int64_t write_model(const char *dir)
{
    static const char zeros[1 << 16];
    struct error err = ERROR_INIT;
    struct llama_shape s;
    struct llama_tensor t;
    struct st_writer w;
    int64_t left = 0;
    must(llama_shape_init(&s, &config, true, 0, 0, 0, &err), &err);
    FILE *f = llm_create_file(dir, "model.safetensors");
    safetensors_writer_init(&w, fileno(f));
    must(safetensors_declare_format(&w, "pt", &err), &err);
    for (int32_t k = 0; k < llama_weight_count(&s); k++) {
        llama_weight(&s, k, &t);
        const int64_t shape[2] = {t.shape[0], t.shape[1]};
        must(safetensors_declare(&w, t.name, ST_F32, shape, t.dims, &err),
             &err);
        left += 4 * t.n;
    }
    const int64_t all = left;
    must(safetensors_begin(&w, &err), &err);
    for (; left > 0; left -= (int64_t)sizeof(zeros))
        must(st_write(&w, zeros,
                      left < (int64_t)sizeof(zeros) ? (size_t)left
                                                    : sizeof(zeros),
                      &err),
             &err);
    must(safetensors_end(&w, &err), &err);
    safetensors_writer_clear(&w);
    (void)fclose(f);
    llm_write_config(dir, &config);
    return all;
}

/* One value of the last norm, which ends the file, is none. */
static void test_not_finite(struct llm_rig *g, const char *dir)
{
    static const struct {
        float value;
        const char *said;
    } t[] = {{NAN, "value 511 is NaN"}, {-INFINITY, "value 511 is infinite"}};
    char path[200];
    struct error err = ERROR_INIT;
    (void)snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    FILE *f = fopen(path, "r+");
    for (int i = 0; i < 2 && f != NULL; i++) {
        if (fseek(f, -4, SEEK_END) != 0 || fwrite(&t[i].value, 4, 1, f) != 1 ||
            fflush(f) != 0)
            break;
        ok(model_init(g->m, 1, &err) < 0 && err.code == ERR_INVAL &&
               strstr(err.msg, t[i].said) != NULL &&
               strstr(err.msg, "checkpoint_dir") != NULL,
           "%s", err.msg);
    }
    if (f != NULL)
        (void)fclose(f);
}

int main(void)
{
    struct llm_rig g;
    char dir[] = "/tmp/mgpu-load.XXXXXX";
    if (mkdtemp(dir) == NULL)
        return 1;
    const int64_t bytes = write_model(dir);
    const struct llama_conf conf = {.dt = DT_F32,
                                    .rank = 4,
                                    .alpha = 8,
                                    .targets = 1,
                                    .batch = 1,
                                    .batch_eval = 1,
                                    .row_tokens = 8,
                                    .dir = dir};
    const struct memory_used before = memory_used("");
    llm_rig_open(&g, &conf, 1);
    const struct memory_used used = memory_used("");
    const double mib = 1 << 20;
    ok(!g.d->host_memory || used.bytes - before.bytes >= bytes,
       "%.1f MiB are loaded, %.1f are used", (double)bytes / mib,
       (double)(used.bytes - before.bytes) / mib);
    ok(used.highest - used.bytes < bytes / 2,
       "%.1f more while they were loaded: pieces, and not the file",
       (double)(used.highest - used.bytes) / mib);
    test_not_finite(&g, dir);
    llm_rig_close(&g);
    llm_remove_model(dir);
    return tap_done();
}
