/* gguf_meta.c - see gguf_meta.h. */
#include "worker/llm/gguf/gguf_meta.h"

#include <string.h>

void gguf_meta_clear(struct gguf_meta *m)
{
    buf_clear(&m->bytes);
    m->n = 0;
}

/* ---- values -------------------------------------------------------------- */

int gguf_put_u64(struct buf *to, uint64_t v, struct error *err)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i) & 0xff);
    return buf_add(to, b, sizeof(b), err);
}

int gguf_put_u32(struct buf *to, uint32_t v, struct error *err)
{
    unsigned char b[4];
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(v >> (8 * i) & 0xff);
    return buf_add(to, b, sizeof(b), err);
}

int gguf_put_real(struct buf *to, float v, struct error *err)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return gguf_put_u32(to, bits, err);
}

int gguf_put_text(struct buf *to, const char *text, size_t len,
                  struct error *err)
{
    return gguf_put_u64(to, len, err) < 0 ? -1 : buf_add(to, text, len, err);
}

/* ---- keys ---------------------------------------------------------------- */

static int put_key(struct gguf_meta *m, const char *key, enum gguf_kind kind,
                   struct error *err)
{
    if (gguf_put_text(&m->bytes, key, strlen(key), err) < 0)
        return -1;
    m->n++;
    return gguf_put_u32(&m->bytes, (uint32_t)kind, err);
}

int gguf_meta_u32(struct gguf_meta *m, const char *key, uint32_t v,
                  struct error *err)
{
    return put_key(m, key, GGUF_U32, err) < 0 ? -1
                                              : gguf_put_u32(&m->bytes, v, err);
}

int gguf_meta_real(struct gguf_meta *m, const char *key, double v,
                   struct error *err)
{
    return put_key(m, key, GGUF_REAL, err) < 0
               ? -1
               : gguf_put_real(&m->bytes, (float)v, err);
}

int gguf_meta_bool(struct gguf_meta *m, const char *key, bool v,
                   struct error *err)
{
    const char byte = v ? 1 : 0;
    return put_key(m, key, GGUF_BOOL, err) < 0
               ? -1
               : buf_add(&m->bytes, &byte, 1, err);
}

int gguf_meta_text(struct gguf_meta *m, const char *key, const char *text,
                   size_t len, struct error *err)
{
    return put_key(m, key, GGUF_TEXT, err) < 0
               ? -1
               : gguf_put_text(&m->bytes, text, len, err);
}

int gguf_meta_list(struct gguf_meta *m, const char *key, enum gguf_kind of,
                   uint64_t n, struct error *err)
{
    if (put_key(m, key, GGUF_LIST, err) < 0 ||
        gguf_put_u32(&m->bytes, (uint32_t)of, err) < 0)
        return -1;
    return gguf_put_u64(&m->bytes, n, err);
}
