/* mobilenet_state.c - export and import of tensors under torchvision's names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cv/tensors.h"

static int export_slot(struct mobilenet *m, const struct slot *s, double *v,
                       void *raw,
                       int (*each)(void *arg, const struct model_tensor *t,
                                   struct error *err),
                       void *arg, struct error *err)
{
    const enum dtype dt = tensor_slot_dtype(m, s);
    struct model_tensor t = {
        .name = s->name,
        .dt = dt,
        .dims = s->dims,
        .data = raw,
        .bytes = (size_t)s->n * dtype_bytes(dt),
    };
    for (int32_t i = 0; i < s->dims; i++)
        t.shape[i] = s->shape[i];
    if (s->kind == SLOT_TRACKED) {
        t.dt = DT_N;
        t.data = &m->tracked[s->row];
        t.bytes = sizeof(m->tracked[s->row]);
        return each(arg, &t, err);
    }
    if (tensor_slot_read(m, s, v, raw, err) < 0)
        return -1;
    for (int64_t j = 0; j < s->n; j++)
        dtype_set(dt, raw, j, v[j]);
    return each(arg, &t, err);
}

int mobilenet_export(struct model *model,
                     int (*each)(void *arg, const struct model_tensor *t,
                                 struct error *err),
                     void *arg, struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    const size_t most = (size_t)tensor_slot_largest(m);
    double *v = calloc(2 * most, sizeof(*v));
    if (!v)
        return error_set(err, ERR_NOMEM, "model: export");
    int rc = 0;
    for (int32_t i = 0; i < SLOTS && rc == 0; i++) {
        struct slot s;
        tensor_slot_get(m, i, &s);
        rc = export_slot(m, &s, v, v + most, each, arg, err);
    }
    free(v);
    return rc;
}

static int find(const struct mobilenet *m, const char *name, struct slot *ret,
                struct error *err)
{
    for (int32_t i = 0; i < SLOTS; i++) {
        tensor_slot_get(m, i, ret);
        if (strcmp(ret->name, name) == 0)
            return 0;
    }
    (void)error_set(err, ERR_NOTFOUND, "the model has no tensor '%s'", name);
    return -1;
}

/* "[32, 3, 3, 3]" */
static const char *shape_text(const int32_t *shape, int32_t dims, char *out,
                              size_t cap)
{
    size_t at = 0;
    for (int32_t i = 0; i < dims && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%d", i ? ", " : "[",
                               shape[i]);
    if (at < cap)
        (void)snprintf(out + at, cap - at, dims > 0 ? "]" : "[]");
    return out;
}

static int check(const struct slot *s, const struct model_tensor *t,
                 struct error *err)
{
    char has[80], wants[80];
    bool same = t->dims == s->dims;
    for (int32_t i = 0; same && i < s->dims; i++)
        same = t->shape[i] == s->shape[i];
    if (!same)
        return error_set(
            err, ERR_INVAL, "%s has shape %s, this model's is %s", t->name,
            shape_text(t->shape, t->dims > 4 ? 4 : t->dims, has, sizeof(has)),
            shape_text(s->shape, s->dims, wants, sizeof(wants)));
    if ((int)t->dt < 0 || t->dt > DT_N ||
        (t->dt == DT_N) != (s->kind == SLOT_TRACKED))
        return error_set(err, ERR_INVAL, "%s: the type must be %s", t->name,
                         s->kind == SLOT_TRACKED ? "int64"
                                                 : "f64, f32, f16 or bf16");
    size_t size = t->dt == DT_N ? sizeof(int64_t) : dtype_bytes(t->dt);
    if (t->bytes != (size_t)s->n * size)
        return error_set(err, ERR_INVAL, "%s: %zu bytes for %lld elements",
                         t->name, t->bytes, (long long)s->n);
    return 0;
}

int mobilenet_import(struct model *model, const struct model_tensor *t,
                     struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    struct slot s;
    if (find(m, t->name, &s, err) < 0 || check(&s, t, err) < 0)
        return -1;
    if (s.kind == SLOT_TRACKED) {
        memcpy(&m->tracked[s.row], t->data, sizeof(m->tracked[s.row]));
        return 0;
    }
    double *v = calloc(2 * (size_t)s.n, sizeof(*v));
    if (!v)
        return error_set(err, ERR_NOMEM, "model: import of %s", t->name);
    for (int64_t j = 0; j < s.n; j++)
        v[j] = dtype_get(t->dt, t->data, j); /* need not be aligned */
    int rc = tensor_slot_write(m, &s, v, v + s.n, err);
    free(v);
    return rc;
}
