/* llama_check.c - see llama_check.h. */
#include "worker/llm/llama_check.h"

#include <stdlib.h>
#include <string.h>

/* The names stay where the tensors are. */
int llama_check_weights(const struct hf_dir *h, const struct llama_shape *s,
                        struct error *err)
{
    const int32_t n = llama_weight_count(s);
    struct llama_tensor *t = calloc((size_t)n, sizeof(*t));
    struct hf_want *want = calloc((size_t)n, sizeof(*want));
    int rc = -1;
    if (t == NULL || want == NULL) {
        (void)error_set(err, ERR_NOMEM, "names of the tensors");
        goto out;
    }
    for (int32_t i = 0; i < n; i++) {
        llama_weight(s, i, &t[i]);
        want[i] = (struct hf_want){.name = t[i].name,
                                   .dims = t[i].dims,
                                   .shape = {t[i].shape[0], t[i].shape[1]}};
    }
    rc = hf_check(h, want, n, s->c.tied, err);
out:
    free(t);
    free(want);
    return rc;
}

static bool is_adapter(const struct llama_shape *s, const char *name)
{
    for (int32_t i = 0; i < llama_adapter_count(s); i++) {
        struct llama_tensor t;
        llama_adapter(s, i, &t);
        if (strcmp(t.name, name) == 0)
            return true;
    }
    return false;
}

static bool is_copy(const char *name)
{
    return strstr(name, ".base_layer.") != NULL;
}

/* All of the shape are there: the file has others if it has more. */
static int check_others(const struct safetensors *f,
                        const struct llama_shape *s, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += !is_copy(f->tensors[i].name);
    if (n == (size_t)llama_adapter_count(s))
        return 0;
    for (size_t i = 0; i < f->n; i++)
        if (!is_copy(f->tensors[i].name) && !is_adapter(s, f->tensors[i].name))
            return error_set(err, ERR_INVAL,
                             "'%.120s' belongs to no linear of the model that "
                             "target_modules names",
                             f->tensors[i].name);
    return 0;
}

int llama_check_adapters(const struct safetensors *f,
                         const struct llama_shape *s, struct error *err)
{
    for (int32_t i = 0; i < llama_adapter_count(s); i++) {
        struct llama_tensor t;
        llama_adapter(s, i, &t);
        const struct st_tensor *from = st_find(f, t.name);
        if (from == NULL || hf_dtype(from->type) == DT_N || from->dims != 2 ||
            from->shape[0] != t.shape[0] || from->shape[1] != t.shape[1])
            return error_set(err, ERR_INVAL,
                             "%s: expected a tensor [%d, %d] of floating point "
                             "numbers%s",
                             t.name, t.shape[0], t.shape[1],
                             from == NULL ? ", there is none" : "");
    }
    return check_others(f, s, err);
}
