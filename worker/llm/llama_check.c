/* llama_check.c - see llama_check.h. */
#include "worker/llm/llama_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/llm/config/llama_rope.h"

static const char embed_name[] = "model.embed_tokens.weight";
static const char head_name[] = "lm_head.weight";

const char llama_untied_words[] =
    "config.json says tie_word_embeddings: true, but lm_head.weight has other "
    "values than the embeddings: it is used, as an output layer of its own";

int llama_read_dir(const char *dir, const struct spec_list *files,
                   struct llama_config *ret, struct error *err)
{
    struct llama_config c;
    struct hf_dir *h = NULL;
    if (llama_config_read(dir, &c, err) < 0)
        return -1;
    if (c.tied && hf_open(dir, files, &h, NULL) == 0) {
        const struct st_tensor *embed = hf_find(h, embed_name);
        const struct st_tensor *head = hf_find(h, head_name);
        c.is_untied = embed != NULL && head != NULL && !hf_is_copy(head, embed);
        c.tied = !c.is_untied;
        hf_close(h);
    }
    *ret = c;
    return 0;
}

/* Rounding to bf16, the coarsest type, changes a value by up to 2^-8 of it; to
 * fp16, where it is below the smallest normal value, by up to 2^-25. Both are
 * doubled, for the arithmetic of the program that wrote the file. */
static bool is_near(double is, double must)
{
    return fabs(is - must) <= ldexp(must, -7) + ldexp(1, -24);
}

/* Accepts the frequencies of config.json, with or without its rope_scaling:
 * some files have unscaled ones. */
static int check_buffer(const struct st_tensor *t, const struct llama_config *c,
                        struct error *err)
{
    const int32_t n = c->head_dim / 2;
    struct llama_config plain = *c;
    double *freq = calloc(3 * (size_t)n + 1, sizeof(*freq));
    if (freq == NULL)
        return error_set(err, ERR_NOMEM, "frequencies");
    plain.scaling.type = ROPE_PLAIN;
    llama_frequencies(c, freq);
    llama_frequencies(&plain, freq + n);
    bool fits = hf_dtype(t->type) != DT_N && t->dims == 1 && t->shape[0] == n;
    if (fits)
        hf_copy(t, 0, n, DT_F64, freq + 2 * (size_t)n);
    for (int32_t i = 0; i < n && fits; i++)
        fits = is_near(freq[2 * n + i], freq[i]) ||
               is_near(freq[2 * n + i], freq[n + i]);
    free(freq);
    if (fits)
        return 0;
    return error_set(err, ERR_INVAL,
                     "'%.90s' has other frequencies than rope_theta of "
                     "config.json gives: correct it there, or remove the "
                     "tensor",
                     t->name);
}

static int check_buffers(const struct hf_dir *h, const struct llama_shape *s,
                         struct error *err)
{
    for (size_t f = 0; f < hf_file_count(h); f++) {
        const struct safetensors *st = hf_file_tensors(h, f);
        for (size_t i = 0; i < st->n; i++)
            if (hf_is_buffer(st->tensors[i].name) &&
                check_buffer(&st->tensors[i], &s->c, err) < 0)
                return -1;
    }
    return 0;
}

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
    rc = hf_check(h, want, n, s->c.tied ? embed_name : NULL, err);
    rc = rc < 0 ? rc : check_buffers(h, s, err);
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

static const char copy_mark[] = ".base_layer.";

static bool is_copy(const char *name)
{
    return strstr(name, copy_mark) != NULL;
}

/* "base_model.model.lm_head.base_layer.weight" is "lm_head.weight" of the
 * base, or what that is tied to; NULL: no such tensor. */
static const struct st_tensor *copied_from(const struct hf_dir *base,
                                           const struct llama_shape *s,
                                           const char *name)
{
    static const char before[] = "base_model.model.";
    char of[LLAMA_NAME_CAP];
    const size_t skip = sizeof(before) - 1;
    const char *from = name + skip, *mark = strstr(name, copy_mark);
    if (mark == NULL || strncmp(name, before, skip) != 0 || mark <= from)
        return NULL;
    int n = snprintf(of, sizeof(of), "%.*s.%s", (int)(mark - from), from,
                     mark + sizeof(copy_mark) - 1);
    if (n < 0 || (size_t)n >= sizeof(of))
        return NULL;
    const bool is_tied = s->c.tied && strcmp(of, head_name) == 0;
    return hf_find(base, is_tied ? embed_name : of);
}

static int check_copies(const struct safetensors *f, const struct hf_dir *base,
                        const struct llama_shape *s, struct error *err)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct st_tensor *t = &f->tensors[i];
        if (!is_copy(t->name))
            continue;
        const struct st_tensor *of = copied_from(base, s, t->name);
        if (of == NULL || !(hf_is_copy(t, of) || hf_is_copy(of, t)))
            return error_set(err, ERR_INVAL,
                             "'%.120s' is not the weight of the base model: "
                             "the adapter is of another one",
                             t->name);
    }
    return 0;
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

int llama_check_adapters(const struct safetensors *f, const struct hf_dir *base,
                         const struct llama_shape *s, struct error *err)
{
    for (int32_t i = 0; i < llama_adapter_count(s); i++) {
        struct llama_tensor t;
        llama_adapter(s, i, &t);
        const struct st_tensor *from = safetensors_find(f, t.name);
        if (from == NULL || hf_dtype(from->type) == DT_N || from->dims != 2 ||
            from->shape[0] != t.shape[0] || from->shape[1] != t.shape[1])
            return error_set(err, ERR_INVAL,
                             "%s: expected a tensor [%d, %d] of floating point "
                             "numbers%s",
                             t.name, t.shape[0], t.shape[1],
                             from == NULL ? ", there is none" : "");
    }
    return check_others(f, s, err) < 0 ? -1 : check_copies(f, base, s, err);
}
