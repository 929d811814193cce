/* gguf_export.c - see gguf_export.h.
 *
 * The header has every name and place, so that values follow it in one pass.
 * src  ggml, docs/gguf.md, version 3 */
#include "worker/llm/gguf/gguf_export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/chat/chat_template.h"
#include "worker/llm/gguf/gguf_arch.h"
#include "worker/llm/gguf/gguf_special.h"
#include "worker/llm/gguf/gguf_tensors.h"
#include "worker/llm/llama_check.h"

enum { VERSION = 3, QUANTIZATION_VERSION = 2, CONFIG_MAX_BYTES = 1 << 20 };

/* Words, and general.file_type: what most tensors are.
 * src  llama.cpp, gguf-py/gguf/constants.py: LlamaFileType */
static const struct {
    const char *word;
    enum gguf_type type;
    uint32_t file_type;
} types[] = {
    {"f16", GGUF_F16, 1}, {"q8_0", GGUF_Q8_0, 7}, {"bf16", GGUF_BF16, 32}};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

struct source {
    const char *dir;
    struct llama_config c;
    struct llama_shape shape;
    json_t *config;
    struct hf_dir *weights;
    struct gguf_arch arch;
    struct gguf_vocab vocab;
    struct gguf_tensors tensors;
};

bool gguf_export_type(const char *word, enum gguf_type *ret)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(word, types[i].word) == 0) {
            *ret = types[i].type;
            return true;
        }
    return false;
}

/* ---- the directory ------------------------------------------------------- */

static bool has_file(const char *dir, const char *name)
{
    struct buf path = BUF_INIT;
    const bool has = buf_addf(&path, NULL, "%s/%s", dir, name) == 0 &&
                     access(buf_str(&path), F_OK) == 0;
    buf_clear(&path);
    return has;
}

static int check_places(const struct gguf_export *conf, struct error *err)
{
    if (has_file(conf->dir, "adapter_config.json") &&
        !has_file(conf->dir, "model.safetensors") &&
        !has_file(conf->dir, "model.safetensors.index.json"))
        return error_set(err, ERR_INVAL,
                         "'%s' is an adapter: merge it into its base first, "
                         "mgpu-model merge BASE --adapter %s -o MERGED",
                         conf->dir, conf->dir);
    if (access(conf->out, F_OK) == 0)
        return error_set(err, ERR_STATE,
                         "'%s' exists: name a new file, or remove it",
                         conf->out);
    return 0;
}

static int read_config(struct source *s, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/config.json", s->dir);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), CONFIG_MAX_BYTES, err);
    if (rc == 0) {
        s->config = json_loadb(buf_str(&text), text.len, 0, NULL);
        if (s->config == NULL)
            rc = error_set(err, ERR_INVAL, "%s: not JSON", buf_str(&path));
    }
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}

static int read_dir(struct source *s, enum gguf_type type, struct error *err)
{
    if (llama_read_dir(s->dir, NULL, &s->c, err) < 0 || read_config(s, err) < 0)
        return -1;
    if (gguf_arch_find(&s->c, s->config, &s->arch, err) < 0)
        return error_wrap(err, "%s: config.json", s->dir);
    if (llama_shape_init(&s->shape, &s->c, true, 0, 0, 0, err) < 0 ||
        hf_open(s->dir, NULL, &s->weights, err) < 0)
        return -1;
    if (llama_check_weights(s->weights, &s->shape, err) < 0)
        return error_wrap(err, "%s", s->dir);
    if (gguf_vocab_read(s->dir, s->c.vocab, &s->vocab, err) < 0)
        return -1;
    return gguf_tensors_list(&s->shape, s->weights, type, s->arch.pairs,
                             &s->tensors, err);
}

static void clear(struct source *s)
{
    gguf_tensors_clear(&s->tensors);
    gguf_vocab_clear(&s->vocab);
    hf_close(s->weights);
    json_decref(s->config);
}

/* ---- the header ---------------------------------------------------------- */

/* "8B", "1.1B", "260K": two digits where there are not more.
 * src  llama.cpp, gguf-py/gguf/utility.py: size_label() */
static void size_label(int64_t values, char ret[32])
{
    static const struct {
        double unit;
        char word;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    int u = 0;
    while (u < 3 && (double)values <= units[u].unit)
        u++;
    const double scaled = (double)values * (1 / units[u].unit);
    const double whole = nearbyint(scaled);
    const int digits = whole >= 10 ? 0 : whole >= 1 ? 1 : 2;
    (void)snprintf(ret, 32, "%.*f%c", digits, scaled, units[u].word);
}

/* The last name of a path. */
static int put_name(const char *dir, struct gguf_meta *m, struct error *err)
{
    char *whole = realpath(dir, NULL);
    const char *slash = whole != NULL ? strrchr(whole, '/') : NULL;
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : "model";
    const int rc = gguf_meta_text(m, "general.name", name, strlen(name), err);
    free(whole);
    return rc;
}

static int put_general(const struct source *s, enum gguf_type type,
                       struct gguf_meta *m, struct error *err)
{
    char label[32];
    uint32_t file_type = 0;
    for (int i = 0; i < TYPES; i++)
        file_type = types[i].type == type ? types[i].file_type : file_type;
    size_label(s->tensors.values, label);
    if (gguf_meta_text(m, "general.architecture", s->arch.name,
                       strlen(s->arch.name), err) < 0 ||
        gguf_meta_text(m, "general.type", "model", 5, err) < 0 ||
        put_name(s->dir, m, err) < 0 ||
        gguf_meta_text(m, "general.size_label", label, strlen(label), err) <
            0 ||
        gguf_meta_u32(m, "general.file_type", file_type, err) < 0)
        return -1;
    return gguf_meta_u32(m, "general.quantization_version",
                         QUANTIZATION_VERSION, err);
}

static int encode_header(const struct source *s, enum gguf_type type,
                         struct buf *ret, struct error *err)
{
    static const char zeros[GGUF_ALIGNMENT];
    struct gguf_meta m = {.n = 0};
    int rc = put_general(s, type, &m, err);
    rc = rc < 0 ? rc : gguf_arch_encode(&s->arch, &s->c, s->config, &m, err);
    rc = rc < 0 ? rc : gguf_vocab_encode(&s->vocab, &m, err);
    rc = rc < 0 ? rc
                : gguf_special_encode(s->dir, s->config, &s->vocab, &m, err);
    if (rc < 0 || buf_addstr(ret, "GGUF", err) < 0 ||
        gguf_put_u32(ret, VERSION, err) < 0 ||
        gguf_put_u64(ret, (uint64_t)s->tensors.n, err) < 0 ||
        gguf_put_u64(ret, m.n, err) < 0 ||
        buf_add(ret, buf_str(&m.bytes), m.bytes.len, err) < 0 ||
        gguf_tensors_encode(&s->tensors, ret, err) < 0)
        rc = -1;
    gguf_meta_clear(&m);
    const size_t over = ret->len % GGUF_ALIGNMENT;
    if (rc == 0 && over > 0)
        rc = buf_add(ret, zeros, GGUF_ALIGNMENT - over, err);
    return rc;
}

/* ---- the file ------------------------------------------------------------ */

static int open_out(const char *path, struct file_atomic *f, struct error *err)
{
    const char *slash = strrchr(path, '/');
    struct buf dir = BUF_INIT;
    int rc = slash != NULL ? buf_add(&dir, path, (size_t)(slash - path), err)
                           : buf_addstr(&dir, ".", err);
    rc = rc < 0 ? rc
                : file_atomic_open(f, buf_str(&dir),
                                   slash != NULL ? slash + 1 : path, err);
    buf_clear(&dir);
    return rc;
}

static int write_file(const struct source *s, const struct gguf_export *conf,
                      int64_t *ret_bytes, struct error *err)
{
    struct file_atomic f = FILE_ATOMIC_INIT;
    struct buf header = BUF_INIT;
    int rc = encode_header(s, conf->type, &header, err);
    rc = rc < 0 ? rc : open_out(conf->out, &f, err);
    rc = rc < 0 ? rc : file_atomic_write(&f, buf_str(&header), header.len, err);
    rc = rc < 0 ? rc : gguf_tensors_write(&s->tensors, &f, err);
    rc = rc < 0 ? rc : file_atomic_close(&f, err);
    rc = rc < 0 ? rc : file_atomic_rename(&f, err);
    rc = rc < 0 ? rc : file_atomic_sync_parent(conf->out, err);
    file_atomic_clear(&f);
    const struct gguf_tensor *last = &s->tensors.list[s->tensors.n - 1];
    *ret_bytes =
        (int64_t)header.len + last->at +
        (last->bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    buf_clear(&header);
    return rc;
}

int gguf_export(const struct gguf_export *conf, struct gguf_exported *ret,
                struct error *err)
{
    struct source s = {.dir = conf->dir};
    int64_t bytes = 0;
    int rc = check_places(conf, err);
    rc = rc < 0 ? rc : read_dir(&s, conf->type, err);
    rc = rc < 0 ? rc : write_file(&s, conf, &bytes, err);
    if (rc == 0) {
        *ret = (struct gguf_exported){.tensors = s.tensors.n,
                                      .bytes = bytes,
                                      .window = s.c.window,
                                      .has_template =
                                          chat_template_is_in(conf->dir),
                                      .has_own_head = s.c.is_untied};
        for (int32_t i = 0; i < s.tensors.n; i++)
            ret->floats += !s.tensors.list[i].is_vector &&
                           s.tensors.list[i].type != conf->type;
    }
    clear(&s);
    return rc;
}
