/* token_rig.h - a source of token batches on one of several ranks that are
 * not there, with a device that counts its memory. For tests only. */
#ifndef MGPU_TESTS_TOKEN_RIG_H
#define MGPU_TESTS_TOKEN_RIG_H

#include "jobs/base/clock.h"
#include "tests/unit/worker/token_files.h"
#include "worker/llm/batches/token_batches.h"

/* ---- a device that counts, and copies beside its work -------------------- */

enum { RIG_SLOTS = DEVICE_SLOTS };

struct rig_device {
    const struct device_ops *real;
    struct device_ops ops;
    struct device *d;
    int64_t bytes, held, pinned, sends;
    int64_t shared; /* pieces that do not consist of whole pages */
    /* A copy that was sent reads its source when somebody waits for it. */
    struct {
        void *dst;
        const void *src;
        size_t bytes;
        bool under_way, in_use;
    } slots[RIG_SLOTS];
};

static struct rig_device rig_dev;

static inline int rig_alloc(struct device *d, size_t bytes, void **ret,
                            struct error *err)
{
    rig_dev.bytes += (int64_t)bytes;
    rig_dev.held++;
    return rig_dev.real->alloc(d, bytes, ret, err);
}

static inline void rig_release(struct device *d, void *p)
{
    rig_dev.held -= p != NULL;
    rig_dev.real->release(d, p);
}

static inline int rig_pin(struct device *d, void *host, size_t bytes,
                          struct error *err)
{
    (void)d;
    (void)err;
    rig_dev.shared += (uintptr_t)host % 4096 != 0 || bytes % 4096 != 0;
    rig_dev.pinned++;
    return 0;
}

static inline void rig_unpin(struct device *d, void *host)
{
    (void)d;
    (void)host;
    rig_dev.pinned--;
}

static inline int rig_send(struct device *d, int32_t slot, void *dst,
                           const void *src, size_t bytes, struct error *err)
{
    (void)d;
    if (slot < 0 || slot >= RIG_SLOTS || rig_dev.slots[slot].under_way ||
        rig_dev.slots[slot].in_use)
        return error_set(err, ERR_EXTERN, "slot %d is not free", slot);
    rig_dev.slots[slot].dst = dst;
    rig_dev.slots[slot].src = src;
    rig_dev.slots[slot].bytes = bytes;
    rig_dev.slots[slot].under_way = true;
    rig_dev.sends++;
    return 0;
}

static inline int rig_sent(struct device *d, int32_t slot, struct error *err)
{
    (void)d;
    (void)err;
    if (rig_dev.slots[slot].under_way)
        memcpy(rig_dev.slots[slot].dst, rig_dev.slots[slot].src,
               rig_dev.slots[slot].bytes);
    rig_dev.slots[slot].under_way = false;
    return 0;
}

static inline int rig_receive(struct device *d, int32_t slot, struct error *err)
{
    rig_dev.slots[slot].in_use = true;
    return rig_sent(d, slot, err);
}

static inline int rig_reuse(struct device *d, int32_t slot, struct error *err)
{
    (void)d;
    (void)err;
    rig_dev.slots[slot].in_use = false;
    return 0;
}

static inline struct device *rig_device_open(bool sends)
{
    struct error err = ERROR_INIT;
    memset(&rig_dev, 0, sizeof(rig_dev));
    text_must(device_host_create(1, &rig_dev.d, &err), &err);
    rig_dev.real = rig_dev.d->ops;
    rig_dev.ops = *rig_dev.real;
    rig_dev.ops.alloc = rig_alloc;
    rig_dev.ops.release = rig_release;
    rig_dev.ops.pin = rig_pin;
    rig_dev.ops.unpin = rig_unpin;
    rig_dev.ops.send = sends ? rig_send : NULL;
    rig_dev.ops.receive = sends ? rig_receive : NULL;
    rig_dev.ops.reuse = sends ? rig_reuse : NULL;
    rig_dev.ops.sent = sends ? rig_sent : NULL;
    rig_dev.d->ops = &rig_dev.ops;
    return rig_dev.d;
}

/* ---- ranks --------------------------------------------------------------- */

/* The largest of this rank's values and what another rank has. */
struct rig_comm {
    struct comm base;
    bool differs;
};

static inline int rig_all_reduce(struct comm *c, void *x, size_t n,
                                 enum comm_type type, enum comm_op op,
                                 int *ret_ticket, struct error *err)
{
    const struct rig_comm *r = (struct rig_comm *)c;
    int64_t *v = x;
    if (n != 2 || type != COMM_I64 || op != COMM_MAX)
        return error_set(err, ERR_INTERNAL, "another collective");
    if (r->differs) {
        v[0] = v[0] > 7 ? v[0] : 7;
        v[1] = v[1] > -7 ? v[1] : -7;
    }
    *ret_ticket = 0;
    return 0;
}

static inline int rig_wait(struct comm *c, int ticket, double deadline_s,
                           struct error *err)
{
    (void)c;
    (void)ticket;
    (void)deadline_s;
    (void)err;
    return 0;
}

static const struct comm_ops rig_comm_ops = {
    .name = "rig", .all_reduce = rig_all_reduce, .wait = rig_wait};

/* ---- a source ------------------------------------------------------------ */

struct rig {
    struct job_spec spec;
    struct rig_comm comm;
    struct batch_env env;
    struct batch_source *source;
    int32_t window; /* of the model */
    char said[400];
};

static inline void rig_say(void *arg, const char *line)
{
    struct rig *r = arg;
    (void)snprintf(r->said, sizeof(r->said), "%s", line);
}

/* Rank 0 of 1 with a batch of 2 and no data; spec and env may be changed
 * before rig_open(). */
static inline void rig_init(struct rig *r, bool sends)
{
    *r = (struct rig){.spec = {.kind = SPEC_LLM}};
    r->spec.train.batch_size = 2;
    r->spec.train.seed = 3;
    r->spec.train.dataset.template = TEMPLATE_TOKENS;
    r->spec.train.dataset_val.template = TEMPLATE_TOKENS;
    r->comm.base = (struct comm){.ops = &rig_comm_ops, .size = 1};
    r->env = (struct batch_env){.spec = &r->spec,
                                .dev = rig_device_open(sends),
                                .dt = DT_F32,
                                .comm = &r->comm.base,
                                .deadline_s = 1,
                                .clock = &clock_real,
                                .parts = 1,
                                .streams = 1,
                                .shares = 1,
                                .say = rig_say,
                                .arg = r};
}

/* As rank of size, with a number of parts each. */
static inline void rig_rank(struct rig *r, int32_t rank, int32_t size,
                            int32_t parts)
{
    r->comm.base.rank = rank;
    r->comm.base.size = size;
    r->env.first = rank * parts;
    r->env.parts = parts;
    r->env.streams = size * parts;
}

static inline void rig_open(struct rig *r)
{
    struct error err = ERROR_INIT;
    text_must(token_batches_open(&r->env, -1, r->window, &r->source, &err),
              &err);
    text_must(r->source->ops->start(r->source, &err), &err);
}

static inline void rig_counts(struct rig *r, int32_t *ret_train,
                              int32_t *ret_eval)
{
    struct error err = ERROR_INIT;
    text_must(r->source->ops->count(r->source, ret_train, ret_eval, &err),
              &err);
}

static inline void rig_epoch(struct rig *r, int32_t epoch)
{
    struct error err = ERROR_INIT;
    struct batch_epoch e = {.seed = r->spec.train.seed, .epoch = epoch};
    int32_t eval;
    rig_counts(r, &e.batches, &eval);
    text_must(r->source->ops->begin(r->source, &e, &err), &err);
}

static inline struct batch rig_take(struct rig *r, enum batch_part part,
                                    int32_t i)
{
    struct error err = ERROR_INIT;
    struct batch b;
    text_must(r->source->ops->take(r->source, part, i, &b, &err), &err);
    return b;
}

static inline void rig_ahead(struct rig *r, enum batch_part part)
{
    struct error err = ERROR_INIT;
    text_must(r->source->ops->ahead(r->source, part, &err), &err);
}

static inline void rig_close(struct rig *r)
{
    if (r->source != NULL)
        r->source->ops->destroy(r->source);
    r->source = NULL;
    r->env.dev->ops->destroy(r->env.dev);
}

#endif
