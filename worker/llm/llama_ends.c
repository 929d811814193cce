/* llama_ends.c - see llama_ends.h. */
#include "worker/llm/llama_ends.h"

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/buf.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

static int add(const json_t *v, int32_t vocab, struct llama_ends *ret,
               struct error *err)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) >= vocab)
        return error_set(err, ERR_INVAL,
                         "eos_token_id: expected integers in 0..%d", vocab - 1);
    if (ret->n == LLAMA_ENDS_MAX)
        return error_set(err, ERR_INVAL, "eos_token_id: more than %d ids",
                         LLAMA_ENDS_MAX);
    ret->id[ret->n++] = (int32_t)json_integer_value(v);
    return 0;
}

int llama_ends_parse(const char *text, size_t len, int32_t vocab,
                     struct llama_ends *ret, struct error *err)
{
    json_error_t why;
    struct llama_ends ends = {.n = 0};
    json_t *o = json_loadb(text, len, 0, &why);
    int rc = 0;
    if (o == NULL)
        return error_set(err, ERR_INVAL, "line %d: %.100s", why.line, why.text);
    const json_t *ids = json_object_get(o, "eos_token_id");
    if (json_is_array(ids))
        for (size_t i = 0; i < json_array_size(ids) && rc == 0; i++)
            rc = add(json_array_get(ids, i), vocab, &ends, err);
    else if (ids != NULL && !json_is_null(ids))
        rc = add(ids, vocab, &ends, err);
    json_decref(o);
    if (rc == 0)
        *ret = ends;
    return rc;
}

static int read_file(const char *dir, const char *name, int32_t vocab,
                     struct llama_ends *ret, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, name);
    rc = rc < 0 ? rc
                : buf_read_file(&text, buf_str(&path), CONFIG_MAX_BYTES, err);
    if (rc == 0 &&
        llama_ends_parse(buf_str(&text), text.len, vocab, ret, err) < 0)
        rc = error_wrap(err, "%s", buf_str(&path));
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}

/* A directory without the file, or NULL, names none. */
static int read_generation(const char *dir, int32_t vocab,
                           struct llama_ends *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    if (dir == NULL ||
        read_file(dir, "generation_config.json", vocab, ret, &why) == 0 ||
        why.code == ERR_NOTFOUND)
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

int llama_ends_read(const char *adapter, const char *dir, int32_t vocab,
                    struct llama_ends *ret, struct error *err)
{
    struct llama_ends ends = {.n = 0};
    if (read_generation(adapter, vocab, &ends, err) < 0 ||
        (ends.n == 0 && read_generation(dir, vocab, &ends, err) < 0))
        return -1;
    if (ends.n == 0 && read_file(dir, "config.json", vocab, &ends, err) < 0)
        return -1;
    *ret = ends;
    return 0;
}

void llama_ends_add(struct llama_ends *e, int32_t id)
{
    bool has = id < 0 || e->n == LLAMA_ENDS_MAX;
    for (int32_t i = 0; i < e->n; i++)
        has = has || e->id[i] == id;
    if (!has)
        e->id[e->n++] = id;
}
