/* plan_rows.c - see plan_rows.h. */
#include "worker/model_tool/plan_rows.h"

#include "worker/llm/batches/token_stage.h"
#include "worker/llm/llama.h"

static const double deadline_s = 60; /* no other rank takes part */

/* A device that is not here: what a batch takes depends on where its memory is,
 * and on whether it can be sent ahead, which a GPU can. */
static int send_ahead(struct device *d, int32_t slot, void *to,
                      const void *from, size_t bytes, struct error *err)
{
    (void)d;
    (void)slot;
    (void)to;
    (void)from;
    (void)bytes;
    return error_set(err, ERR_UNAVAIL, "no GPU");
}
static const struct device_ops gpu_ops = {.name = "gpu", .send = send_ahead};
static const struct device_ops host_ops = {.name = "host"};

static int read_data(const struct plan_rows_ask *ask, struct device *dev,
                     struct plan_rows *ret, struct error *err)
{
    struct batch_source *source = NULL;
    struct comm *comm = NULL;
    if (comm_alone_create(NULL, &comm, err) < 0)
        return -1;
    const struct batch_env env = {.spec = ask->spec,
                                  .dev = dev,
                                  .dt = ask->dt,
                                  .comm = comm,
                                  .deadline_s = deadline_s,
                                  .clock = &clock_real,
                                  .parts = ask->parts,
                                  .streams = ask->ranks * ask->parts,
                                  .shares = 1};
    int rc = llama_kind.open_data(&env, &source, err);
    if (rc == 0) {
        ret->info = *source->ops->info(source);
        source->ops->plan(source, &ret->batches, &ret->host);
        ret->is_read = true;
        source->ops->destroy(source);
    }
    comm->ops->destroy(comm);
    return rc;
}

/* Counts what token_batches.c takes: two stages, and the lists of a batch. */
static int assume(const struct plan_rows_ask *ask, struct device *dev,
                  struct plan_rows *ret, struct error *err)
{
    const struct job_spec *s = ask->spec;
    const int32_t tokens = s->train.tokenizer.max_seq_len;
    const bool pairs = s->method == METHOD_DPO;
    const int32_t each = pairs ? 2 : 1; /* rows of a sample */
    const int32_t train = s->train.batch_size;
    const int32_t eval =
        s->train.batch_size_val > 0 ? s->train.batch_size_val : train;
    const int32_t rows[] = {train,
                            s->train.dataset_val.path != NULL ? eval : 0};
    if (tokens == 0)
        return error_set(err, ERR_INVAL,
                         "the rows are not here, and may be of any length: set "
                         "train.tokenizer.max_seq_len");
    ret->info = (struct batch_info){.classes = ask->vocab,
                                    .row_tokens = each * tokens,
                                    .positions = tokens};
    ret->host = (int64_t)sizeof(int32_t) *
                ((rows[1] > train ? rows[1] : train) + (int64_t)ask->vocab);
    for (int i = 0; i < 2; i++) {
        const struct token_stage stage = {
            .d = dev,
            .tokens = (int64_t)rows[i] * each * tokens,
            .pairs = pairs ? rows[i] : 0,
            .pin = s->train.pin_memory != TRI_FALSE};
        ret->batches += token_stage_device_bytes(&stage);
        ret->host += token_stage_host_bytes(&stage);
    }
    return 0;
}

int plan_rows_read(const struct plan_rows_ask *ask, struct plan_rows *ret,
                   struct error *err)
{
    struct device dev = {.ops = ask->is_gpu ? &gpu_ops : &host_ops,
                         .host_memory = !ask->is_gpu};
    struct plan_rows rows = {.is_read = false};
    struct error why = ERROR_INIT;
    if (!ask->skips_data && read_data(ask, &dev, &rows, &why) == 0) {
        *ret = rows;
        return 0;
    }
    if (!ask->skips_data && why.code != ERR_NOTFOUND) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (assume(ask, &dev, &rows, err) < 0)
        return -1;
    *ret = rows;
    return 0;
}
