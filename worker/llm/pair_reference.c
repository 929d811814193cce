/* pair_reference.c - see pair_reference.h. */
#include "worker/llm/pair_reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/cache/token_cache.h"
#include "worker/llm/config/llama_rope.h"
#include "worker/llm/files/reference_file.h"
#include "worker/llm/llama.h"

enum { REFERENCE_VERSION = 2, NAME_CAP = DIGEST_HEX_CAP + 16 };
static const double say_each_s = 10;

/* The pairs of one part of the data. */
struct work {
    const struct batch_env *env;
    struct batch_source *source;
    struct model *m;
    enum batch_part part;
    int32_t pairs;
    double *ret; /* [2 pairs] */
};

/* The numbers that a pass takes from config.json, beside the weights.
 * out  ret_n, returned  theirs; NULL: no memory */
static double *config_numbers(const struct llama_config *c, size_t *ret_n)
{
    const double first[] = {c->norm_eps, llama_rope_factor(c), c->heads,
                            c->kv_heads, c->head_dim};
    const size_t n = sizeof(first) / sizeof(first[0]);
    const size_t pairs = (size_t)c->head_dim / 2;
    double *ret = malloc((n + pairs) * sizeof(*ret));
    if (ret == NULL)
        return NULL;
    memcpy(ret, first, sizeof(first));
    llama_frequencies(c, ret + n);
    *ret_n = n + pairs;
    return ret;
}

static int name_of(const struct work *w, char ret[NAME_CAP], struct error *err)
{
    char data[DIGEST_HEX_CAP], key[200], sum[DIGEST_HEX_CAP];
    size_t n = 0;
    if (token_batches_pairs_digest(w->source, w->part, data, err) < 0)
        return -1;
    (void)snprintf(key, sizeof(key), "%d %" PRId64 " %s %s %s",
                   REFERENCE_VERSION, llama_digest(w->m),
                   dtype_name(w->env->dt), w->env->dev->ops->name, data);
    double *numbers = config_numbers(llama_config_of(w->m), &n);
    if (numbers == NULL)
        return error_set(err, ERR_NOMEM, "name of a reference");
    const struct digest_part parts[] = {{key, strlen(key)},
                                        {numbers, n * sizeof(*numbers)}};
    int rc = digest_parts(parts, 2, sum, err);
    free(numbers);
    if (rc == 0)
        (void)snprintf(ret, NAME_CAP, "%s.reference", sum);
    return rc;
}

/* The pairs of one batch; is_own: their log p is wanted. */
static int compute_batch(const struct work *w, int64_t first, bool is_own,
                         double *two, struct error *err)
{
    struct batch b;
    if (token_batches_take_pairs(w->source, w->part, (int32_t)first, &b, err) <
            0 ||
        llama_reference(w->m, &b, two, err) < 0)
        return -1;
    if (is_own)
        memcpy(w->ret + 2 * first, two, 2 * (size_t)b.valid * sizeof(*two));
    return 0;
}

/* This rank's batches: every size-th. The others' values stay 0. Where a pass
 * is a collective of all ranks, each makes as many: those that have no batch
 * left take the first one again. */
static int compute(const struct work *w, int32_t batch, struct error *err)
{
    const struct batch_env *env = w->env;
    const struct clock *clock = env->clock;
    const int64_t each = (int64_t)batch * env->comm->size;
    double said_s = clock->now_s(clock);
    double *two = malloc(2 * (size_t)batch * sizeof(*two));
    int rc = two == NULL ? error_set(err, ERR_NOMEM, "reference") : 0;
    for (int64_t first = 0; first < w->pairs && rc == 0; first += each) {
        const int64_t i = first + (int64_t)batch * env->comm->rank;
        const bool is_own = i < w->pairs;
        if (is_own || w->m->ops->is_sharded)
            rc = compute_batch(w, is_own ? i : 0, is_own, two, err);
        if (clock->now_s(clock) - said_s < say_each_s)
            continue;
        said_s = clock->now_s(clock);
        batch_say(env, "log p of the reference: %.0f %% of %d pairs",
                  100 * (double)first / w->pairs, w->pairs);
    }
    free(two);
    if (rc < 0)
        return -1;
    return comm_all_reduce_now(env->comm, w->ret, 2 * (size_t)w->pairs,
                               COMM_F64, COMM_SUM, env->deadline_s, err);
}

/* Rank 0 reads what another job computed. */
static bool found(const struct work *w, const char *dir, const char *name)
{
    struct error why = ERROR_INIT;
    if (dir == NULL)
        return false;
    if (reference_file_read(dir, name, w->ret, 2 * (int64_t)w->pairs, &why) ==
        0)
        return true;
    if (why.code != ERR_NOTFOUND)
        batch_say(w->env, "log p of the reference is computed again: %s",
                  why.msg);
    return false;
}

static void keep(const struct work *w, const char *dir, const char *name)
{
    struct error why = ERROR_INIT;
    if (dir != NULL && reference_file_write(dir, name, w->ret,
                                            2 * (int64_t)w->pairs, &why) < 0)
        batch_say(w->env, "log p of the reference is not cached: %s", why.msg);
}

/* in   batch  pairs of a pass */
static int find_or_compute(const struct work *w, int32_t batch,
                           struct error *err)
{
    struct comm *c = w->env->comm;
    char name[NAME_CAP];
    char *dir = NULL;
    if (name_of(w, name, err) < 0)
        return -1;
    if (c->rank == 0)
        dir = token_cache_dir(&w->env->spec->env);
    int64_t is_found = c->rank == 0 && found(w, dir, name);
    int rc = comm_broadcast_now(c, &is_found, sizeof(is_found), 0,
                                w->env->deadline_s, err);
    if (rc == 0 && is_found) {
        rc =
            comm_broadcast_now(c, w->ret, 2 * (size_t)w->pairs * sizeof(double),
                               0, w->env->deadline_s, err);
    } else if (rc == 0) {
        memset(w->ret, 0, 2 * (size_t)w->pairs * sizeof(double));
        rc = compute(w, batch, err);
        if (rc == 0)
            keep(w, dir, name);
    }
    if (rc == 0)
        batch_say(w->env, "log p of the reference: %d pairs, %s", w->pairs,
                  is_found ? "from the cache" : "computed");
    free(dir);
    return rc;
}

int pair_reference_prepare(const struct batch_env *env,
                           struct batch_source *source, struct model *m,
                           struct error *err)
{
    const struct job_spec *s = env->spec;
    const int32_t batch[BATCH_PARTS] = {
        [BATCH_TRAIN] = s->train.batch_size,
        [BATCH_EVAL] = s->train.batch_size_val > 0 ? s->train.batch_size_val
                                                   : s->train.batch_size};
    if (s->method != METHOD_DPO || !s->train.loss.precompute_reference)
        return 0;
    for (int i = 0; i < BATCH_PARTS; i++) {
        struct work w = {
            .env = env, .source = source, .m = m, .part = (enum batch_part)i};
        w.pairs = token_batches_pairs(source, w.part);
        if (w.pairs == 0)
            continue;
        w.ret = malloc(2 * (size_t)w.pairs * sizeof(*w.ret));
        if (w.ret == NULL)
            return error_set(err, ERR_NOMEM, "log p of %d pairs", w.pairs);
        if (find_or_compute(&w, batch[i], err) < 0) {
            free(w.ret);
            return error_wrap(err, "log p of the reference");
        }
        token_batches_set_reference(source, w.part, w.ret);
    }
    return 0;
}
