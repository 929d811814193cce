/* plain_readers.c - every reader of a file that a user names, and what stands
 * in the place of one: a FIFO, /dev/zero, a directory, a socket. All are
 * refused at once, by name. (Checkpoints: checkpoint/checkpoint.c; cached
 * tokens: data_cache_trust.c.) */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "jobs/conf/conf.h"
#include "jobs/spec/secrets_file.h"
#include "tests/tap.h"
#include "tests/unit/worker/llm_files.h"
#include "worker/data/cache/token_cache.h"
#include "worker/data/image/idx.h"
#include "worker/data/image/image_sample.h"
#include "worker/llm/config/llama_config.h"
#include "worker/llm/files/adapter_file.h"
#include "worker/llm/files/hf_dir.h"
#include "worker/llm/files/hf_write.h"
#include "worker/llm/files/reference_file.h"
#include "worker/llm/llama_ends.h"

static struct model_dir home;

static void must(bool holds)
{
    if (!holds) {
        tap_diag("errno: %s", strerror(errno));
        exit(1);
    }
}

/* ---- the readers: of the directory, or of the file in it ----------------- */

static int read_config(const char *dir, const char *path, struct error *err)
{
    struct llama_config c;
    (void)path;
    return llama_config_read(dir, &c, err);
}

static int read_ends(const char *dir, const char *path, struct error *err)
{
    struct llama_ends e;
    (void)path;
    return llama_ends_read(NULL, dir, 512, &e, err);
}

static int read_weights(const char *dir, const char *path, struct error *err)
{
    struct hf_dir *h = NULL;
    (void)path;
    int rc = hf_open(dir, NULL, &h, err);
    if (rc == 0)
        hf_close(h);
    return rc;
}

static int read_adapter_config(const char *dir, const char *path,
                               struct error *err)
{
    struct adapter_config c;
    (void)path;
    return adapter_config_read(dir, &c, err);
}

static int read_adapter(const char *dir, const char *path, struct error *err)
{
    struct safetensors s;
    (void)path;
    int rc = adapter_open(dir, &s, err);
    if (rc == 0)
        safetensors_close(&s);
    return rc;
}

static int one_tensor(void *arg,
                      int (*take)(void *to, const struct hf_tensor *t,
                                  struct error *err),
                      void *to, struct error *err)
{
    static const float v[1];
    const struct hf_tensor t = {
        .name = "w", .type = ST_F32, .dims = 1, .shape = {1}, .data = v};
    (void)arg;
    return take(to, &t, err);
}

/* What is copied into a merged model. */
static int copy_base(const char *dir, const char *path, struct error *err)
{
    const struct hf_ends ends = {.prompt = PROMPT_AUTO};
    char out[512];
    (void)path;
    return hf_write(model_dir_file(&home, "out", out), dir, &ends, 0,
                    one_tensor, NULL, err);
}

static int read_tokenizer(const char *dir, const char *path, struct error *err)
{
    struct tokenizer *t = NULL;
    (void)path;
    int rc = tokenizer_open(dir, &t, err);
    if (rc == 0)
        tokenizer_close(t);
    return rc;
}

static int read_tokenizer_file(const char *dir, const char *path,
                               struct error *err)
{
    (void)dir;
    return read_tokenizer(path, path, err);
}

static int take_none(void *arg, const json_t *row, struct row_place place,
                     struct error *err)
{
    (void)arg;
    (void)row;
    (void)place;
    (void)err;
    return 0;
}

static int read_rows(const char *dir, const char *path, struct error *err)
{
    char *paths[] = {(char *)(uintptr_t)path};
    const struct data_files files = {.path = paths, .n = 1};
    struct row_sink sink = {.take = take_none};
    (void)dir;
    return data_rows_read(&files, &sink, err);
}

/* The name of cached rows: data are hashed before they are read. */
static int hash_rows(const char *dir, const char *path, struct error *err)
{
    char *paths[] = {(char *)(uintptr_t)path};
    char key[TOKEN_CACHE_KEY_CAP];
    const struct data_files files = {.path = paths, .n = 1};
    const struct spec_text text = {.template = TEMPLATE_TOKENS};
    const struct token_conf tokens = {.text = &text};
    const struct token_cache_conf conf = {.tokens = &tokens};
    (void)dir;
    return token_cache_key(&conf, &files, key, err);
}

static int read_reference(const char *dir, const char *path, struct error *err)
{
    double v[1];
    (void)path;
    return reference_file_read(dir, "reference.bin", v, 1, err);
}

static int read_idx(const char *dir, const char *path, struct error *err)
{
    int32_t dim[IDX_DIMS];
    uint8_t *p = NULL;
    (void)dir;
    int rc = idx_read(path, 1, 0, dim, &p, err);
    if (rc == 0)
        free(p);
    return rc;
}

static int read_image(const char *dir, const char *path, struct error *err)
{
    struct sample_room room = {.file = BUF_INIT};
    const struct view_conf conf = {.S = 32};
    const struct view_draw draw = {.seed = 1};
    struct image_u8 image;
    const uint8_t *pixels;
    (void)dir;
    int rc = sample_read(&room, path, &conf, &draw, &image, &pixels, err);
    sample_room_clear(&room);
    return rc;
}

static int read_own(const char *dir, const char *path, struct error *err)
{
    struct buf b = BUF_INIT;
    (void)dir;
    int rc = buf_read_own_file(&b, path, 100, err);
    buf_clear(&b);
    return rc;
}

static int read_conf(const char *dir, const char *path, struct error *err)
{
    struct conf c;
    (void)dir;
    int rc = conf_load(path, &c, NULL, err);
    if (rc == 0)
        conf_clear(&c);
    return rc;
}

static int look_at_secret(const char *dir, const char *path, struct error *err)
{
    (void)path;
    return secret_look("token", dir, err);
}

static const struct {
    const char *name;
    int (*read)(const char *dir, const char *path, struct error *err);
} readers[] = {
    {"config.json", read_config},
    {"generation_config.json", read_ends},
    {"model.safetensors", read_weights},
    {"model.safetensors.index.json", read_weights},
    {"adapter_config.json", read_adapter_config},
    {"adapter_model.safetensors", read_adapter},
    {"config.json", copy_base},
    {"tokenizer_config.json", copy_base},
    {"tokenizer.model", read_tokenizer},
    {"tokenizer.json", read_tokenizer},
    {"a.tiktoken", read_tokenizer_file},
    {"rows.json", read_rows},
    {"rows.csv", read_rows},
    {"rows.tsv", read_rows},
    {"rows.jsonl.gz", read_rows},
    {"rows.jsonl", hash_rows},
    {"reference.bin", read_reference},
    {"images.idx", read_idx},
    {"images.idx.gz", read_idx},
    {"picture.jpg", read_image},
    {"launch.json", read_own},
    {"mgpu.yaml", read_conf},
    {".config/mgpu/secrets/token", look_at_secret},
};

/* ---- what stands there --------------------------------------------------- */

static const char *const kinds[] = {"a FIFO", "/dev/zero", "a directory",
                                    "a socket"};

static int bind_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0 && strlen(path) < sizeof(at.sun_path));
    memcpy(at.sun_path, path, strlen(path));
    int rc = bind(fd, (const struct sockaddr *)&at, sizeof(at));
    (void)close(fd);
    return rc;
}

static void put(int kind, const char *path)
{
    must((kind == 0   ? mkfifo(path, 0600)
          : kind == 1 ? symlink("/dev/zero", path)
          : kind == 2 ? mkdir(path, 0700)
                      : bind_socket(path)) == 0);
}

/* The directories of the name. */
static void make_dirs(const char *path)
{
    char part[512];
    for (const char *p = path + strlen(home.path) + 1;
         (p = strchr(p, '/')) != NULL; p++) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
        must(mkdir(part, 0700) == 0 || errno == EEXIST);
    }
}

static void check(size_t i, int kind)
{
    struct error err = ERROR_INIT;
    const char *name = readers[i].name;
    char path[512];
    (void)model_dir_file(&home, name, path);
    make_dirs(path);
    put(kind, path);
    tap_diag("%s, %s", name, kinds[kind]); /* of an alarm */
    (void)alarm(60);
    int rc = readers[i].read(home.path, path, &err);
    (void)alarm(0);
    ok(rc < 0 && strstr(err.msg, name) != NULL, "%s for %s: %s", kinds[kind],
       name, err.msg);
    must(remove(path) == 0);
}

int main(void)
{
    char out[512];
    model_dir_init(&home);
    must(mkdir(model_dir_file(&home, "out", out), 0700) == 0);
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        for (int kind = 0; kind < 4; kind++)
            check(i, kind);
    (void)snprintf(out, sizeof(out), "rm -rf '%s'", home.path);
    must(system(out) == 0); /* NOLINT(cert-env33-c) */
    return tap_done();
}
