/* gguf_meta.h - the keys and values of a GGUF file, as its header has them:
 * all numbers little endian, a text is a length (u64) and its bytes.
 *
 * src  ggml, docs/gguf.md: "File Structure", version 3 */
#ifndef MGPU_WORKER_LLM_GGUF_META_H
#define MGPU_WORKER_LLM_GGUF_META_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"

/* What a value is, or each element of a list. */
enum gguf_kind {
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_REAL = 6, /* a float */
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_LIST = 9,
};

/* Zeroed: none. */
struct gguf_meta {
    struct buf bytes;
    uint64_t n;
};

void gguf_meta_clear(struct gguf_meta *m);

/* Appends numbers or a text as a file has them. err  ERR_NOMEM */
int gguf_put_u32(struct buf *to, uint32_t v, struct error *err) MUST_CHECK;
int gguf_put_u64(struct buf *to, uint64_t v, struct error *err) MUST_CHECK;
int gguf_put_real(struct buf *to, float v, struct error *err) MUST_CHECK;
int gguf_put_text(struct buf *to, const char *text, size_t len,
                  struct error *err) MUST_CHECK;

/* A key and its value. err  ERR_NOMEM */
int gguf_meta_u32(struct gguf_meta *m, const char *key, uint32_t v,
                  struct error *err) MUST_CHECK;
int gguf_meta_real(struct gguf_meta *m, const char *key, double v,
                   struct error *err) MUST_CHECK;
int gguf_meta_bool(struct gguf_meta *m, const char *key, bool v,
                   struct error *err) MUST_CHECK;
int gguf_meta_text(struct gguf_meta *m, const char *key, const char *text,
                   size_t len, struct error *err) MUST_CHECK;
/* A key and a list of n, which the caller puts behind it into bytes. */
int gguf_meta_list(struct gguf_meta *m, const char *key, enum gguf_kind of,
                   uint64_t n, struct error *err) MUST_CHECK;

#endif
