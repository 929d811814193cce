/* prefetch.c - see prefetch.h.
 *
 * Stages are used in turn; batch number k is in stage k % stages. A task is
 * one image of one batch; tasks are started in the order of their batches.
 * The lock guards all numbers; files are read and bytes are copied without
 * it, into room that was reserved with it.
 */
#include "worker/data/prefetch.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/image/image_sample.h"
#include "worker/data/image/resize_host.h"
#include "worker/data/sampler.h"

enum { ALIGN = 256, PAGE = 4096, PATH_CAP = 8192 };

struct stage {
    uint8_t *memory;
    int32_t *index; /* [batch] */
    int32_t n, started, finished, valid, bad;
    int64_t seed, epoch;
    size_t used;
    struct error why; /* of the first image that could not be read */
    int32_t why_at;
    bool fatal; /* it cannot be passed over */
};

struct fetch {
    struct fetch_conf conf;
    const struct dataset *ds;
    struct prefetch_layout layout;
    size_t cap; /* bytes for images */
    struct stage stages[FETCH_STAGES_MAX];
    int32_t n_stages;
    int64_t puts, takes, at; /* batches put, taken; the one being started */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool stop;
    struct thread {
        struct fetch *f;
        pthread_t id;
        struct sample_room room;
        struct buf lines; /* of floats_resize() */
    } * threads;          /* [workers], or one that is the caller */
    int32_t n_threads;
};

/* ---- one image -----------------------------------------------------------
 */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static struct floats_conf floats_of(const struct fetch_conf *c,
                                    const struct dataset *ds)
{
    return (struct floats_conf){.dt = c->dt,
                                .S = c->view.S,
                                .C = c->view.gray ? 1 : IMAGE_CHANNELS,
                                .planar = c->planar,
                                .norm = &ds->norm};
}

struct prefetch_layout prefetch_layout(const struct fetch_conf *conf,
                                       const struct dataset *ds)
{
    size_t n = (size_t)conf->batch;
    size_t each = ds->images ? (size_t)ds->H * (size_t)ds->W * (size_t)ds->C
                             : sample_bytes(&conf->view);
    const struct floats_conf fc = floats_of(conf, ds);
    struct prefetch_layout l = {.list_at =
                                    round_up(n * sizeof(int32_t), ALIGN)};
    l.bytes_at = round_up(l.list_at + n * sizeof(struct image_u8), ALIGN);
    l.cap = round_up(l.bytes_at +
                         n * (conf->floats ? resize_floats_bytes(&fc) : each),
                     PAGE);
    return l;
}

static int32_t stages_of(const struct fetch_conf *conf)
{
    return conf->workers > 0 ? FETCH_STAGES_MAX : 2;
}

int64_t prefetch_bytes(const struct fetch_conf *conf, const struct dataset *ds)
{
    size_t index = (size_t)conf->batch * sizeof(int32_t);
    return stages_of(conf) * (int64_t)(prefetch_layout(conf, ds).cap + index);
}

static int32_t *labels_of(const struct stage *s)
{
    return (int32_t *)(void *)s->memory;
}

static struct image_u8 *list_of(const struct fetch *f, const struct stage *s)
{
    return (struct image_u8 *)(void *)(s->memory + f->layout.list_at);
}

/* Reserves room for one image's bytes, in the order in which threads ask. */
static uint8_t *reserve(struct fetch *f, struct stage *s, struct image_u8 *m)
{
    size_t n = (size_t)m->H * (size_t)m->W * (size_t)m->C;
    (void)pthread_mutex_lock(&f->lock);
    m->at = (int64_t)s->used;
    s->used += n;
    assert(s->used <= f->cap);
    (void)pthread_mutex_unlock(&f->lock);
    return s->memory + f->layout.bytes_at + m->at;
}

/* The bytes of one image into their place, as pixels or as planes. */
static void place(struct fetch *f, struct stage *s, struct image_u8 *m,
                  const uint8_t *p, size_t stride)
{
    const size_t W = (size_t)m->W, C = (size_t)m->C;
    const size_t plane = (size_t)m->H * W;
    uint8_t *out = reserve(f, s, m);
    for (int32_t y = 0; y < m->H; y++, p += stride) {
        if (!f->conf.planar) {
            memcpy(out + (size_t)y * W * C, p, W * C);
            continue;
        }
        for (size_t k = 0; k < C; k++)
            for (size_t x = 0; x < W; x++)
                out[k * plane + (size_t)y * W + x] = p[x * C + k];
    }
}

/* Image i, resized to its place. */
static int resize_part(struct fetch *f, struct stage *s, struct thread *t,
                       int32_t i, const struct image_u8 *m,
                       const uint8_t *pixels, size_t stride, struct error *err)
{
    const struct floats_conf c = floats_of(&f->conf, f->ds);
    return floats_resize(&c, m, pixels, stride, &t->lines,
                         s->memory + f->layout.bytes_at +
                             (size_t)i * resize_floats_bytes(&c),
                         err);
}

/* The part of an image in memory. */
static int copy_part(struct fetch *f, struct stage *s, struct thread *t,
                     int32_t i, const struct view_draw *draw,
                     struct image_u8 *m, struct error *err)
{
    const struct dataset *ds = f->ds;
    struct view v;
    augment_view_of(&f->conf.view, draw, ds->W, ds->H, &v);
    *m = (struct image_u8){.H = v.h,
                           .W = v.w,
                           .C = ds->C,
                           .h = v.h,
                           .w = v.w,
                           .to_h = v.to_h,
                           .to_w = v.to_w,
                           .oy = v.oy,
                           .ox = v.ox,
                           .flip = v.flip};
    size_t C = (size_t)ds->C, stride = (size_t)ds->W * C;
    const uint8_t *p = ds->images +
                       (size_t)draw->sample * (size_t)ds->H * stride +
                       (size_t)v.top * stride + (size_t)v.left * C;
    if (f->conf.floats)
        return resize_part(f, s, t, i, m, p, stride, err);
    place(f, s, m, p, stride);
    return 0;
}

static int read_part(struct fetch *f, struct stage *s, struct thread *t,
                     int32_t i, const struct view_draw *draw,
                     struct image_u8 *m, struct error *err)
{
    char path[PATH_CAP];
    const uint8_t *pixels;
    int n = snprintf(path, sizeof(path), "%s/%s", f->ds->folder.dir,
                     folder_name(&f->ds->folder, draw->sample));
    if (n < 0 || n >= PATH_CAP)
        return error_set(err, ERR_INVAL, "the path is too long");
    if (sample_read(&t->room, path, &f->conf.view, draw, m, &pixels, err) < 0)
        return -1;
    const size_t stride = (size_t)m->W * (size_t)m->C;
    if (f->conf.floats)
        return resize_part(f, s, t, i, m, pixels, stride, err);
    place(f, s, m, pixels, stride);
    return 0;
}

/* A failure that skip_bad may pass over: the file's, not the machine's. */
static bool is_bad_row(const struct error *e)
{
    return e->code == ERR_INVAL || e->code == ERR_LIMIT ||
           e->code == ERR_NOTFOUND || e->code == ERR_DENIED;
}

static void note_failure(const struct fetch *f, struct stage *s, int32_t i,
                         const struct error *why)
{
    bool fatal = !f->conf.skip_bad || !is_bad_row(why);
    s->bad++;
    /* The first failure that ends the job counts, else the first of all. */
    if (s->why.code == ERR_NONE || (fatal && !s->fatal) ||
        (fatal == s->fatal && i < s->why_at)) {
        s->why = *why;
        s->why_at = i;
    }
    s->fatal = s->fatal || fatal;
}

static void run_task(struct fetch *f, struct stage *s, int32_t i,
                     struct thread *t)
{
    struct view_draw draw = {
        .seed = s->seed, .epoch = s->epoch, .sample = s->index[i]};
    struct image_u8 m = {.C = 0};
    struct error err = ERROR_INIT;
    bool has = draw.sample != SAMPLER_NONE;
    int rc = 0;
    if (has && f->ds->images)
        rc = copy_part(f, s, t, i, &draw, &m, &err);
    else if (has)
        rc = read_part(f, s, t, i, &draw, &m, &err);
    if (rc < 0)
        m = (struct image_u8){.C = 0};
    if (m.C == 0 && f->conf.floats)
        (void)resize_part(f, s, t, i, &m, NULL, 0, NULL); /* zeros */
    assert(image_u8_check(&m, f->conf.floats ? INT64_MAX : (int64_t)f->cap,
                          f->conf.view.S,
                          f->conf.view.gray ? 1 : IMAGE_CHANNELS, NULL) == 0);
    list_of(f, s)[i] = m;
    labels_of(s)[i] = has && rc == 0 ? f->ds->labels[draw.sample] : -1;
    (void)pthread_mutex_lock(&f->lock);
    s->valid += has && rc == 0;
    if (rc < 0)
        note_failure(f, s, i, &err);
    if (++s->finished == s->n)
        (void)pthread_cond_broadcast(&f->done);
    (void)pthread_mutex_unlock(&f->lock);
}

/* ---- threads -------------------------------------------------------------
 */

/* The next image that no thread has begun; false when there is none. */
static bool next_task(struct fetch *f, struct stage **ret, int32_t *ret_i)
{
    if (f->at < f->takes)
        f->at = f->takes;
    for (; f->at < f->puts; f->at++) {
        struct stage *s = &f->stages[f->at % f->n_stages];
        if (s->started < s->n) {
            *ret = s;
            *ret_i = s->started++;
            return true;
        }
    }
    return false;
}

static void *work(void *arg)
{
    struct thread *t = arg;
    struct fetch *f = t->f;
    (void)pthread_mutex_lock(&f->lock);
    while (!f->stop) {
        struct stage *s;
        int32_t i;
        if (!next_task(f, &s, &i)) {
            (void)pthread_cond_wait(&f->work, &f->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&f->lock);
        run_task(f, s, i, t);
        (void)pthread_mutex_lock(&f->lock);
    }
    (void)pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* Signals are for the thread that trains. */
static int start_threads(struct fetch *f, struct error *err)
{
    sigset_t all, was;
    int rc = 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    while (rc == 0 && f->n_threads < f->conf.workers) {
        struct thread *t = &f->threads[f->n_threads];
        t->f = f;
        rc = pthread_create(&t->id, NULL, work, t);
        f->n_threads += rc == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    return rc ? error_sys(err, rc, "a thread for images") : 0;
}

int prefetch_create(const struct fetch_conf *conf, const struct dataset *ds,
                    struct fetch **ret, struct error *err)
{
    if (conf->batch < 1 || conf->view.S < 1 || conf->workers < 0)
        return error_set(err, ERR_INVAL, "batch %d, image size %d, %d threads",
                         conf->batch, conf->view.S, conf->workers);
    struct fetch *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "batches");
    f->conf = *conf;
    f->ds = ds;
    f->layout = prefetch_layout(conf, ds);
    f->cap = f->layout.cap - f->layout.bytes_at;
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->work, NULL);
    (void)pthread_cond_init(&f->done, NULL);
    size_t threads = conf->workers > 0 ? (size_t)conf->workers : 1;
    f->threads = calloc(threads, sizeof(*f->threads));
    bool has = f->threads != NULL;
    f->n_stages = stages_of(conf);
    for (int32_t i = 0; i < f->n_stages; i++) {
        f->stages[i].memory = aligned_alloc(PAGE, f->layout.cap);
        if (f->stages[i].memory)
            memset(f->stages[i].memory, 0, f->layout.cap);
        f->stages[i].index = calloc((size_t)conf->batch, sizeof(int32_t));
        has = has && f->stages[i].memory && f->stages[i].index;
    }
    if (!has)
        (void)error_set(err, ERR_NOMEM, "%d stages of %zu bytes", f->n_stages,
                        f->layout.cap);
    if (!has || start_threads(f, err) < 0) {
        prefetch_destroy(f);
        return -1;
    }
    *ret = f;
    return 0;
}

void prefetch_destroy(struct fetch *f)
{
    if (!f)
        return;
    (void)pthread_mutex_lock(&f->lock);
    f->stop = true;
    (void)pthread_cond_broadcast(&f->work);
    (void)pthread_mutex_unlock(&f->lock);
    for (int32_t i = 0; i < f->n_threads; i++)
        (void)pthread_join(f->threads[i].id, NULL);
    for (int32_t i = 0; f->threads && (i == 0 || i < f->n_threads); i++) {
        sample_room_clear(&f->threads[i].room);
        buf_clear(&f->threads[i].lines);
    }
    for (int32_t i = 0; i < f->n_stages; i++) {
        free(f->stages[i].memory);
        free(f->stages[i].index);
    }
    free(f->threads);
    (void)pthread_cond_destroy(&f->done);
    (void)pthread_cond_destroy(&f->work);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---- the caller's side ---------------------------------------------------
 */

uint8_t *prefetch_stage(const struct fetch *f, int32_t i)
{
    return i < f->n_stages ? f->stages[i].memory : NULL;
}

bool prefetch_has_room(const struct fetch *f)
{
    /* The batch taken last still has its stage. */
    return f->puts - f->takes + 1 < f->n_stages + (f->takes == 0);
}

int prefetch_put(struct fetch *f, const struct fetch_ask *ask,
                 struct error *err)
{
    struct stage *s = &f->stages[f->puts % f->n_stages];
    if (ask->n < 1 || ask->n > f->conf.batch)
        return error_set(err, ERR_INVAL, "%d samples, at most %d", ask->n,
                         f->conf.batch);
    for (int32_t i = 0; i < ask->n; i++)
        if (ask->index[i] != SAMPLER_NONE &&
            (ask->index[i] < 0 || ask->index[i] >= f->ds->n))
            return error_set(err, ERR_INVAL, "sample %d of %d", ask->index[i],
                             f->ds->n);
    if (!prefetch_has_room(f))
        return error_set(err, ERR_STATE, "no room for another batch");
    memcpy(s->index, ask->index, (size_t)ask->n * sizeof(*s->index));
    (void)pthread_mutex_lock(&f->lock);
    s->n = ask->n;
    s->started = s->finished = s->valid = s->bad = 0;
    s->seed = ask->seed;
    s->epoch = ask->epoch;
    s->used = 0;
    s->why = (struct error)ERROR_INIT;
    s->fatal = false;
    f->puts++;
    (void)pthread_cond_broadcast(&f->work);
    (void)pthread_mutex_unlock(&f->lock);
    return 0;
}

/* Waits until all tasks of the oldest batch are finished. */
static struct stage *finish_oldest(struct fetch *f)
{
    struct stage *s = &f->stages[f->takes % f->n_stages];
    (void)pthread_mutex_lock(&f->lock);
    while (s->finished < s->n) {
        struct stage *mine;
        int32_t i;
        if (f->conf.workers == 0 && next_task(f, &mine, &i)) {
            (void)pthread_mutex_unlock(&f->lock);
            run_task(f, mine, i, &f->threads[0]);
            (void)pthread_mutex_lock(&f->lock);
        } else {
            (void)pthread_cond_wait(&f->done, &f->lock);
        }
    }
    f->takes++;
    (void)pthread_mutex_unlock(&f->lock);
    return s;
}

bool prefetch_is_ready(struct fetch *f)
{
    bool is = f->takes < f->puts;
    if (is && f->conf.workers > 0) {
        const struct stage *s = &f->stages[f->takes % f->n_stages];
        (void)pthread_mutex_lock(&f->lock);
        is = s->finished == s->n;
        (void)pthread_mutex_unlock(&f->lock);
    }
    return is;
}

int prefetch_take(struct fetch *f, struct fetch_batch *ret, struct error *err)
{
    if (f->takes == f->puts)
        return error_set(err, ERR_STATE, "no batch was asked for");
    const struct stage *s = finish_oldest(f);
    if (s->fatal) {
        if (err)
            *err = s->why;
        return -1;
    }
    const struct floats_conf fc = floats_of(&f->conf, f->ds);
    size_t bytes =
        f->conf.floats ? (size_t)s->n * resize_floats_bytes(&fc) : s->used;
    *ret = (struct fetch_batch){.stage = s->memory,
                                .used = f->layout.bytes_at + bytes,
                                .n = s->n,
                                .valid = s->valid,
                                .bad = s->bad,
                                .first_bad = s->why};
    return 0;
}

void prefetch_reset(struct fetch *f)
{
    (void)pthread_mutex_lock(&f->lock);
    for (int64_t k = f->takes; k < f->puts; k++) {
        struct stage *s = &f->stages[k % f->n_stages];
        s->n = s->started; /* what has not begun never will */
    }
    (void)pthread_mutex_unlock(&f->lock);
    while (f->takes < f->puts)
        (void)finish_oldest(f);
}
