/* hf_check.c - compare the tensors of a directory with those of a model; see
 * hf_dir.h.
 *
 * An error's message is short, so the number of problems comes first, and the
 * list ends, with how many more there are, before the message is full. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "worker/llm/files/hf_internal.h"

enum { LISTED = 10, LIST_BYTES = 150 };

static const char head_name[] = "lm_head.weight";

struct problems {
    int32_t n, listed;
    struct buf list;
};

/* "no 'a'", or with its shape; lists it while there is room. */
static int add(struct problems *p, const char *text, struct error *err)
{
    p->n++;
    bool has_room =
        p->listed < LISTED &&
        (p->listed == 0 || p->list.len + 2 + strlen(text) <= LIST_BYTES);
    if (!has_room || p->listed < p->n - 1)
        return 0;
    p->listed++;
    return buf_addf(&p->list, err, "%s%s", p->n > 1 ? ", " : "", text);
}

static void write_shape(int32_t dims, const int64_t *shape, char *ret,
                        size_t cap)
{
    size_t at = 0;
    (void)snprintf(ret, cap, "%s", dims == 0 ? "a scalar" : "");
    for (int32_t i = 0; i < dims && at < cap; i++) {
        int n = snprintf(ret + at, cap - at, "%s%lld", i > 0 ? "x" : "",
                         (long long)shape[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}

static bool has_shape(const struct st_tensor *t, const struct hf_want *w)
{
    if (t->dims != w->dims)
        return false;
    for (int32_t i = 0; i < w->dims; i++)
        if (t->shape[i] != w->shape[i])
            return false;
    return true;
}

static int check_one(const struct hf_dir *h, const struct hf_want *w,
                     bool *known, struct problems *p, struct error *err)
{
    char text[320], is[100], must[100];
    const struct hf_slot *s = hf_slot_find(h, w->name);
    if (s == NULL) {
        (void)snprintf(text, sizeof(text), "no '%.90s'", w->name);
        return add(p, text, err);
    }
    known[s - h->slots] = true;
    if (!has_shape(s->tensor, w)) {
        write_shape(s->tensor->dims, s->tensor->shape, is, sizeof(is));
        write_shape(w->dims, w->shape, must, sizeof(must));
        (void)snprintf(text, sizeof(text), "'%.90s' is %s, not %s", w->name, is,
                       must);
        return add(p, text, err);
    }
    if (hf_dtype(s->tensor->type) == DT_N) {
        (void)snprintf(text, sizeof(text), "'%.90s' is of type %s", w->name,
                       st_types[s->tensor->type].word);
        return add(p, text, err);
    }
    return 0;
}

bool hf_is_buffer(const char *name)
{
    static const char buffer[] = ".rotary_emb.inv_freq";
    size_t n = strlen(name), k = sizeof(buffer) - 1;
    return n >= k && strcmp(name + n - k, buffer) == 0;
}

/* The weights say that the model is not tied, whatever config.json says. To
 * leave them out would train another model than the one in the files. */
static int check_head(const struct hf_dir *h, const char *tied_to,
                      struct error *err)
{
    const struct st_tensor *embed = hf_find(h, tied_to);
    const struct st_tensor *head = hf_find(h, head_name);
    if (embed == NULL || head == NULL || hf_is_copy(head, embed))
        return 0;
    return error_set(err, ERR_INVAL,
                     "config.json says tie_word_embeddings: true, but '%s' "
                     "has other values than '%.90s': say false there if the "
                     "output layer is one of its own, or remove the tensor",
                     head_name, tied_to);
}

static int check_all(const struct hf_dir *h, const struct hf_want *want,
                     int32_t n, bool tied, bool *known, struct problems *p,
                     struct error *err)
{
    char text[256];
    for (int32_t i = 0; i < n; i++)
        if (check_one(h, &want[i], known, p, err) < 0)
            return -1;
    for (size_t i = 0; i < h->n; i++) {
        const char *name = h->slots[i].tensor->name;
        if (known[i] || hf_is_buffer(name) ||
            (tied && strcmp(name, head_name) == 0))
            continue;
        (void)snprintf(text, sizeof(text), "left over '%.90s'", name);
        if (add(p, text, err) < 0)
            return -1;
    }
    return 0;
}

int hf_check(const struct hf_dir *h, const struct hf_want *want, int32_t n,
             const char *tied_to, struct error *err)
{
    struct problems p = {.n = 0};
    bool *known = calloc(h->n + 1, sizeof(*known));
    int rc = known != NULL ? 0 : error_set(err, ERR_NOMEM, "tensors");
    rc = rc < 0 ? rc : check_all(h, want, n, tied_to != NULL, known, &p, err);
    if (rc == 0 && p.n > p.listed)
        rc = error_set(err, ERR_INVAL,
                       "%d tensors do not fit config.json: %s and %d more", p.n,
                       buf_str(&p.list), p.n - p.listed);
    else if (rc == 0 && p.n > 0)
        rc = error_set(err, ERR_INVAL, "%d tensor%s not fit config.json: %s",
                       p.n, p.n > 1 ? "s do" : " does", buf_str(&p.list));
    else if (rc == 0 && tied_to != NULL)
        rc = check_head(h, tied_to, err);
    free(known);
    buf_clear(&p.list);
    return rc;
}
