/* gpu_table.c - predictions for scripts, of the steps that they measure; see
 * gpu_time.h for the table and gpu_model.c for the model. */
#include <stdio.h>
#include <string.h>

#include "jobs/base/error.h"
#include "tests/bench/gpu_time.h"

enum { WORD = 64, KERNELS = 256 };

struct line {
    char method[WORD], shape[WORD], type[WORD], how[WORD];
    int rows, tokens, documents;
};

struct kernel {
    char name[96];
    struct total x;
};

/* The launches of a step, by kernel. */
struct sums {
    struct kernel at[KERNELS];
    int32_t n;
    struct total all;
};

static int read_method(const char *word, enum step_method *ret)
{
    static const struct {
        const char *word;
        enum step_method is;
    } methods[] = {{"lora", STEP_LORA},
                   {"qlora", STEP_QLORA},
                   {"dpo", STEP_DPO},
                   {"full8", STEP_FULL}};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].word, word) == 0) {
            *ret = methods[i].is;
            return 0;
        }
    return -1;
}

static int read_shape(const char *words, enum step_shape *ret)
{
    char known[WORD];

    for (int i = 0; i < STEP_SHAPES; i++) {
        step_shape_words((enum step_shape)i, known, sizeof(known));
        if (strcmp(known, words) == 0) {
            *ret = (enum step_shape)i;
            return 0;
        }
    }
    return -1;
}

/* out  ret  what is recorded of it. Returns false where the model has no such
 *           step: other methods, shapes and types */
static bool step_of(const struct line *l, struct step_text *ret)
{
    struct step_text t = {.rows = l->rows,
                          .row_tokens = l->tokens,
                          .recomputes = strcmp(l->how, "again") == 0};

    if (read_method(l->method, &t.method) < 0 ||
        read_shape(l->shape, &t.shape) < 0 || strcmp(l->type, "bf16") != 0)
        return false;
    t.document = l->tokens / l->documents;
    *ret = t;
    return true;
}

static struct kernel *kernel_of(struct sums *s, const char *name)
{
    for (int32_t i = 0; i < s->n; i++)
        if (strcmp(s->at[i].name, name) == 0)
            return &s->at[i];
    if (s->n == KERNELS)
        return NULL;
    struct kernel *k = &s->at[s->n++];
    *k = (struct kernel){.x = {.launches = 0}};
    (void)snprintf(k->name, sizeof(k->name), "%s", name);
    return k;
}

/* A product has its shape in its name. */
static void name_of(const struct step_launch *l, char ret[96])
{
    if (strcmp(l->kernel, STEP_PRODUCT) != 0)
        (void)snprintf(ret, 96, "%s", l->kernel);
    else
        (void)snprintf(ret, 96, "%s %lldx%lldx%lld", l->kernel, (long long)l->m,
                       (long long)l->n, (long long)l->k);
}

static int sum_up(struct device *d, const struct facts *f,
                  const struct step_text *of, struct sums *ret,
                  struct error *err)
{
    static struct step s;
    int64_t bytes = 0;

    ret->n = 0;
    ret->all = (struct total){.launches = 0};
    if (step_record_text(d, of, &s, &bytes, err) < 0)
        return -1;
    for (int32_t i = 0; i < s.n; i++) {
        char name[96];
        name_of(&s.at[i], name);
        struct kernel *k = kernel_of(ret, name);
        struct traffic t;
        struct total one;
        double per = 0;
        if (k == NULL)
            return error_set(err, ERR_LIMIT, "over %d kernels", KERNELS);
        if (time_launch(f, &s.at[i], &t, &one, &per, err) < 0)
            return -1;
        total_add(&k->x, &one);
        total_add(&ret->all, &one);
    }
    return 0;
}

static void print_sums(const struct line *l, const struct sums *s)
{
    const double tokens = (double)l->rows * l->tokens;
    char key[4 * WORD + 64];

    (void)snprintf(key, sizeof(key), "%s %s %d %d %s %s %d", l->method,
                   l->shape, l->rows, l->tokens, l->type, l->how, l->documents);
    (void)printf("step\t%s", key);
    for (int e = 0; e < ESTIMATES; e++)
        for (int c = 0; c < CARDS; c++)
            (void)printf("\t%.0f", tokens / s->all.s[e][c]);
    (void)printf("\n");
    for (int32_t i = 0; i < s->n; i++) {
        const struct total *x = &s->at[i].x;
        (void)printf("kernel\t%s\t%s\t%d\t%.3f\t%.3f\t%.3f\n", key,
                     s->at[i].name, x->launches, x->s[ESTIMATE][0] * 1e3,
                     x->s[ESTIMATE][1] * 1e3, x->bytes / 1e9);
    }
}

/* With activations kept and made again: which of them is measured depends on
 * the memory of the card. */
static int print_both(struct device *d, const struct facts *f, struct line *l,
                      struct error *err)
{
    static const char *const hows[] = {"keep", "again"};
    static struct sums s;
    struct step_text t;

    for (int i = 0; i < 2; i++) {
        (void)snprintf(l->how, sizeof(l->how), "%s", hows[i]);
        if (!step_of(l, &t))
            return 0;
        if (sum_up(d, f, &t, &s, err) < 0)
            return -1;
        print_sums(l, &s);
    }
    return 0;
}

int table_print(struct device *d, const struct facts *f, const char *steps,
                struct error *err)
{
    FILE *file = fopen(steps, "r");
    char text[512];
    int rc = 0;

    if (file == NULL)
        return error_set(err, ERR_IO, "'%s' cannot be opened", steps);
    (void)printf("# what, of what, %s, %s, carefully likewise\n", card_names[0],
                 card_names[1]);
    for (int n = 1; rc == 0 && fgets(text, sizeof(text), file) != NULL; n++) {
        struct line l;
        if (text[0] == '#' || text[0] == '\n')
            continue;
        if (sscanf(text, "%*s %63s %63s %d %d %63s %63s %d", l.method, l.shape,
                   &l.rows, &l.tokens, l.type, l.how, &l.documents) != 7 ||
            l.rows < 1 || l.documents < 1 || l.tokens < l.documents)
            rc = error_set(err, ERR_INVAL, "%s:%d: no step", steps, n);
        else
            rc = print_both(d, f, &l, err);
    }
    (void)fclose(file);
    return rc;
}
