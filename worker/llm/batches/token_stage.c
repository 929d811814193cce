/* token_stage.c - see token_stage.h. */
#include "worker/llm/batches/token_stage.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };  /* ints: 256 bytes, as the device aligns */
enum { PAGE = 4096 }; /* what is page-locked shares no page with the heap */

/* Distance in ints from one array to the next. */
static size_t stride_of(int64_t tokens)
{
    return ((size_t)tokens + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t bytes_of(const struct token_stage *s, int64_t tokens)
{
    return TOKENS_LISTS * stride_of(tokens) * sizeof(int32_t) +
           2 * (size_t)s->pairs * sizeof(struct pair_answer);
}

/* In whole pages. */
static size_t stage_bytes(const struct token_stage *s)
{
    return (bytes_of(s, s->tokens) + PAGE - 1) / PAGE * PAGE;
}

bool token_stage_is_ahead(const struct token_stage *s)
{
    return s->d->ops->send != NULL;
}

static int32_t stages(const struct token_stage *s)
{
    return token_stage_is_ahead(s) ? 2 : 1;
}

int64_t token_stage_device_bytes(const struct token_stage *s)
{
    return (token_stage_is_ahead(s) ? 3 : 1) * (int64_t)bytes_of(s, s->tokens);
}

int64_t token_stage_host_bytes(const struct token_stage *s)
{
    return stages(s) * (int64_t)stage_bytes(s);
}

static int alloc_ints(struct token_stage *s, int32_t **ret, struct error *err)
{
    void *p = NULL;
    if (s->d->ops->alloc(s->d, bytes_of(s, s->tokens), &p, err) < 0)
        return -1;
    *ret = p;
    return 0;
}

static int start_stage(struct token_stage *s, int32_t i, struct error *err)
{
    const size_t bytes = stage_bytes(s);
    s->host[i] = aligned_alloc(PAGE, bytes);
    if (s->host[i] == NULL)
        return error_set(err, ERR_NOMEM, "batch of %zu bytes", bytes);
    memset(s->host[i], 0, bytes);
    if (!token_stage_is_ahead(s))
        return 0; /* to_device() has read the stage when it returns */
    if (alloc_ints(s, &s->twin[i], err) < 0)
        return -1;
    if (!s->pin || s->d->ops->pin == NULL)
        return 0;
    if (s->d->ops->pin(s->d, s->host[i], bytes, err) < 0)
        return -1;
    s->pinned++;
    return 0;
}

int token_stage_start(struct token_stage *s, struct error *err)
{
    for (int32_t i = 0; i < stages(s); i++)
        if (start_stage(s, i, err) < 0)
            return -1;
    return alloc_ints(s, &s->x, err);
}

/* Waits until no copy reads stage i. */
static int settle(struct token_stage *s, int32_t i, struct error *err)
{
    if (!s->sent[i])
        return 0;
    s->sent[i] = false;
    return s->d->ops->sent(s->d, s->slot + i, err);
}

void token_stage_clear(struct token_stage *s)
{
    for (int32_t i = 0; i < 2 && s->d != NULL; i++) {
        (void)settle(s, i, NULL); /* what is wrong is reported elsewhere */
        if (i < s->pinned)
            s->d->ops->unpin(s->d, s->host[i]);
        s->d->ops->release(s->d, s->twin[i]);
        free(s->host[i]);
    }
    if (s->d != NULL)
        s->d->ops->release(s->d, s->x);
    *s = (struct token_stage){.d = NULL};
}

int token_stage_open(struct token_stage *s, int32_t n, int32_t S,
                     struct token_rows *ret, struct error *err)
{
    const int64_t tokens = (int64_t)n * S;
    const size_t stride = stride_of(tokens);
    int32_t *p = s->host[s->turn];
    if (settle(s, s->turn, err) < 0)
        return -1;
    void *pairs = p + TOKENS_LISTS * stride;
    s->filled = tokens;
    *ret = (struct token_rows){.n = n,
                               .S = S,
                               .id = p + TOKENS_ID * stride,
                               .pos = p + TOKENS_POS * stride,
                               .order = p + TOKENS_ORDER * stride,
                               .labelled = p + TOKENS_LABELLED * stride,
                               .label = p + TOKENS_LABEL * stride,
                               .answers = s->pairs > 0 ? pairs : NULL};
    return 0;
}

int token_stage_send(struct token_stage *s, struct error *err)
{
    const struct device_ops *ops = s->d->ops;
    const int32_t i = s->turn;
    const size_t bytes = bytes_of(s, s->filled);
    if (!token_stage_is_ahead(s))
        return ops->to_device(s->d, s->x, s->host[0], bytes, err);
    if (ops->send(s->d, s->slot + i, s->twin[i], s->host[i], bytes, err) < 0)
        return -1;
    s->sent[i] = true;
    s->turn ^= 1;
    return 0;
}

/* The arrays that are used keep their place, for work that is captured. */
int token_stage_receive(struct token_stage *s, void *ret[BATCH_ARRAYS],
                        struct error *err)
{
    const struct device_ops *ops = s->d->ops;
    const int32_t i = s->turn ^ 1;
    if (token_stage_is_ahead(s) &&
        (ops->receive(s->d, s->slot + i, err) < 0 ||
         ops->copy(s->d, s->x, s->twin[i], bytes_of(s, s->filled), err) < 0 ||
         ops->reuse(s->d, s->slot + i, err) < 0))
        return -1;
    for (int32_t k = 0; k < BATCH_ARRAYS; k++)
        ret[k] = s->x + (size_t)k * stride_of(s->filled);
    if (s->pairs == 0)
        ret[TOKENS_PAIR] = NULL;
    return 0;
}
