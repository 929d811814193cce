/* llm_pieces.c - the embedding and the output layer of sharded weights travel
 * in pieces.
 *
 * A pass over weights that are frozen or trained, sharded and in pieces, beside
 * one over whole weights on the same rank, in fp64: losses and gradients agree
 * to 1e-13, the logits of an answer, too. Pieces of a few rows or of nearly
 * all, tied to the embedding or not, with adapters of the output layer, in four
 * bits, rounded, and of pairs. Labelled tokens are many chunks of three, and
 * each rank has another number of them: the first has none. The gradient of
 * trained weights is the sum over the ranks, whether it is handed out as a
 * whole or by unit.
 */
#include <math.h>

#include "tests/mpi/mpi_tap.h"
#include "tests/unit/worker/llm_rig.h"
#include "worker/llm/llama_internal.h"

static char tied[4096], untied[4096];

enum { ROWS = 2, TOKENS = 12, DOCUMENT = 9 };

static void write_rows(struct llm_rows *r, int32_t vocab, bool pairs)
{
    llm_begin(r, ROWS, TOKENS);
    for (int row = 0; row < ROWS; row++) {
        int32_t ids[DOCUMENT];
        for (int i = 0; i < DOCUMENT; i++)
            ids[i] = (7 + 13 * mpi_rank + 31 * row + 11 * i) % vocab;
        const int32_t first = r->n_labelled;
        llm_add(r, ids, DOCUMENT,
                mpi_rank == 0 ? DOCUMENT : DOCUMENT - 3 * mpi_rank);
        llm_fill(r);
        if (pairs)
            r->answer[r->answers++] =
                (struct pair_answer){first, r->n_labelled - first, 0};
    }
    if (pairs) {
        r->n = 1;
        r->S = r->at;
    }
}

struct outcome {
    double loss, eval;
    double *grads;
    double logits[128];
};

/* The whole gradient, to which a rank adds what it was handed. */
struct handed {
    struct model *model;
    double *all;
    bool whole; /* the weights, and so the gradient */
};

static int take_part(void *arg, int64_t first, int64_t count, struct error *err)
{
    struct handed *h = arg;
    const struct llama *m = llama_of(h->model);
    const struct device_ops *ops = m->d->ops;
    const bool in_parts = m->conf.in_bwd;
    double *v = malloc((size_t)count * sizeof(*v));
    const void *from = in_parts ? h->model->ops->part(h->model, first)
                                : llama_at(m, model_grads(h->model), first);
    int rc = ops->to_host(m->d, v, from, (size_t)count * sizeof(*v), err);
    for (int32_t u = 0; u < m->shards.n; u++) {
        const struct shard_unit *unit = &m->shards.units[u];
        const int64_t own = unit->first + m->shards.rank * unit->chunk;
        for (int64_t i = 0; i < unit->chunk; i++) {
            const int64_t at = unit->at + i - first;
            if (at >= 0 && at < count && own + i < unit->first + unit->count)
                h->all[own + i] += v[at];
        }
    }
    for (int64_t i = 0; i < count && h->whole; i++)
        h->all[first + i] += v[i];
    free(v);
    return rc;
}

/* The sum over the ranks. */
static double *grads_of_ranks(struct llm_rig *g, double *ret_loss)
{
    const int64_t n = llama_of(g->m)->shape.weights;
    struct handed h = {g->m, calloc((size_t)n, sizeof(double)),
                       g->conf.shared_by <= 1};
    struct error err = ERROR_INIT;
    struct model_result x;
    must(model_put(g->m, 11, 0.25, &err), &err);
    must(model_forward(g->m, &g->b, true, &err), &err);
    must(model_backward(g->m, &g->b, take_part, &h, &err), &err);
    must(model_result(g->m, &g->b, &x, &err), &err);
    (void)MPI_Allreduce(MPI_IN_PLACE, h.all, (int)n, MPI_DOUBLE, MPI_SUM,
                        MPI_COMM_WORLD);
    *ret_loss = x.loss_sum;
    return h.all;
}

static struct outcome run(struct llama_conf conf)
{
    static struct llm_rows rows;
    struct error err = ERROR_INIT;
    struct outcome o = {.loss = 0};
    struct model_result x;
    struct llm_rig g;
    const int32_t ids[] = {1, 5, 9, 70};
    llm_rig_open(&g, &conf, 7);
    if (!conf.is_full) /* trained weights are those of a file, on all ranks */
        llm_shake(&g, 3);
    write_rows(&rows, g.conf.shape.vocab, conf.pairs);
    llm_rig_rows(&g, &rows);
    must(model_forward(g.m, &g.b, false, &err), &err);
    must(model_result(g.m, &g.b, &x, &err), &err);
    o.eval = x.loss_sum;
    for (int i = 0; i < 2; i++) {
        free(o.grads);
        o.grads = NULL;
        if (conf.is_full)
            o.grads = grads_of_ranks(&g, &o.loss);
        else
            o.loss = llm_pass(&g, 0.25);
    }
    if (!conf.is_full)
        o.grads = llm_grads(&g);
    must(llama_logits(g.m, ids, 4, 3, o.logits, &err), &err);
    llm_rig_close(&g);
    return o;
}

/* Relative to the largest; both may be zeros. */
static double apart(const double *a, const double *b, int64_t n)
{
    double most = 0, off = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(b[i]));
        off = fmax(off, fabs(a[i] - b[i]));
    }
    return off > 0 ? off / most : isnan(most) ? (double)INFINITY : 0;
}

static int64_t params_of(const struct llama_conf *conf)
{
    struct llama_conf c = *conf;
    struct model_plan p = {.params = 0};
    struct error err = ERROR_INIT;
    must(llama_config_read(c.dir, &c.shape, &err), &err);
    must(llama_plan(&c, &p, &err), &err);
    return p.params;
}

static void test(struct llama_conf conf, const char *what)
{
    static const int32_t rows[] = {7, 40, 79, 0};
    const int64_t n = params_of(&conf);
    struct outcome whole = run(conf);
    conf.shared_by = mpi_size;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[200];
        conf.unit_rows = rows[i];
        struct outcome o = run(conf);
        const double loss = apart(&o.loss, &whole.loss, 1);
        const double eval = apart(&o.eval, &whole.eval, 1);
        const double grads = apart(o.grads, whole.grads, n);
        const double logits = apart(o.logits, whole.logits, 80);
        (void)snprintf(line, sizeof(line),
                       "%s, %s, pieces of %d rows: %.2g, %.2g, %.2g, %.2g "
                       "apart",
                       what, conf.dir == tied ? "tied" : "untied", rows[i],
                       loss, eval, grads, logits);
        (void)mpi_ok(loss <= 1e-13 && eval <= 1e-13 && grads <= 1e-13 &&
                         logits <= 1e-13,
                     NULL, line);
        free(o.grads);
    }
    free(whole.grads);
}

/* All weights are trained. */
static void test_full(struct llama_conf full)
{
    struct llama_conf conf;
    full.is_full = true;
    conf = full;
    test(conf, "full");
    conf.in_bwd = true;
    test(conf, "full, handed out by unit");
    conf = full;
    conf.recomputes = true;
    conf.quantizer = QUANTIZER_8DA4W;
    conf.groupsize = 8;
    test(conf, "qat of all weights");
    conf = full;
    conf.pairs = true;
    conf.beta = 0.1;
    test(conf, "dpo of all weights");
}

static void test_model(const char *dir, struct comm *c)
{
    const struct llama_conf lora = {.dt = DT_F64,
                                    .rank = 2,
                                    .alpha = 4,
                                    .targets = 127,
                                    .batch = ROWS,
                                    .batch_eval = ROWS,
                                    .row_tokens = ROWS * TOKENS,
                                    .head_rows = 3,
                                    .comm = c,
                                    .dir = dir};
    struct llama_conf conf = lora;
    test(conf, "lora");
    conf.recomputes = true;
    conf.quantizer = QUANTIZER_NF4;
    test(conf, "qlora");
    conf = lora;
    conf.quantizer = QUANTIZER_8DA4W;
    conf.groupsize = 8;
    test(conf, "qat");
    conf = lora;
    conf.pairs = true;
    conf.beta = 0.1;
    test(conf, "dpo");
    test_full(lora);
    if (dir == tied)
        return;
    conf = lora;
    conf.targets = 255;
    test(conf, "lora of the output layer, too");
    conf.quantizer = QUANTIZER_8DA4W;
    conf.groupsize = 8;
    test(conf, "qat of the output layer, too");
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "all ranks")) {
        test_model(llm_path("tests/data/llama-tied", tied), c);
        test_model(llm_path("tests/data/llama-untied", untied), c);
        c->ops->destroy(c);
    }
    return mpi_tap_done();
}
