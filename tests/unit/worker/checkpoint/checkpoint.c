/* checkpoint.c - what is saved comes back; what is damaged, half written or
 * of another model does not. (Exact resumption is tests/mpi/train.c.) */
#include "worker/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/file_atomic.h"
#include "tests/tap.h"
#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/cv/mobilenet.h"

static char dir[] = "/tmp/mgpu-ckpt.XXXXXX";

struct world {
    struct device *dev;
    struct model *model;
    struct checkpoint_parts parts;
    int64_t n;
};

static struct mobilenet_conf small(double width)
{
    return (struct mobilenet_conf){.dt = DT_F32,
                                   .width_mult = width,
                                   .num_classes = 3,
                                   .image_size = 32,
                                   .batch = 1};
}

static bool create(struct world *w, double width)
{
    struct error err = ERROR_INIT;
    struct mobilenet_conf conf = small(width);
    memset(w, 0, sizeof(*w));
    if (device_host_create(1, &w->dev, &err) < 0 ||
        mobilenet_create(w->dev, &conf, &w->model, &err) < 0 ||
        model_init(w->model, 1, &err) < 0)
        return ok(false, "%s", err.msg);
    w->n = model_planned(w->model)->params;
    w->parts = (struct checkpoint_parts){
        .dev = w->dev, .model = w->model, .dt = DT_F32, .n = 1};
    w->parts.arrays[0].n = w->n;
    w->parts.arrays[0].name = "momentum_buffer";
    if (w->dev->ops->alloc(w->dev, (size_t)w->n * sizeof(float),
                           &w->parts.arrays[0].data, &err) < 0)
        return ok(false, "%s", err.msg);
    return true;
}

static void destroy(struct world *w)
{
    w->dev->ops->release(w->dev, w->parts.arrays[0].data);
    model_destroy(w->model);
    w->dev->ops->destroy(w->dev);
}

/* Host memory: the test may look. */
static void fill(struct world *w, float seed)
{
    float *p = model_params(w->model), *m = w->parts.arrays[0].data;
    for (int64_t i = 0; i < w->n; i++) {
        p[i] = seed + (float)i;
        m[i] = seed - (float)i;
    }
}

static bool is_filled(struct world *w, float seed)
{
    const float *p = model_params(w->model), *m = w->parts.arrays[0].data;
    bool same = true;
    for (int64_t i = 0; i < w->n; i++)
        same = same && p[i] == seed + (float)i && m[i] == seed - (float)i;
    return same;
}

static const struct checkpoint_state state = {.iteration = 7,
                                              .seed = -3,
                                              .global_batch = 64,
                                              .epoch = 2,
                                              .batch = 3,
                                              .ranks = 2,
                                              .batch_size = 32,
                                              .epoch_s = 0.1,
                                              .loss_sum = 1.0 / 3,
                                              .samples = 192,
                                              .counted = 128,
                                              .tokens = 98304,
                                              .best = NAN,
                                              .loss_scale = {0x1p15, 12}};

static bool save(struct world *w, int64_t iteration, int32_t keep)
{
    struct error err = ERROR_INIT;
    struct checkpoint_state s = state;
    s.iteration = iteration;
    fill(w, (float)iteration);
    return ok(checkpoint_save(dir, &s, &w->parts, keep, &err) == 0,
              "save step %" PRId64 ": %s", iteration, err.msg);
}

static void path_of(char ret[160], int64_t step, const char *name)
{
    (void)snprintf(ret, 160, "%s/step-%" PRId64 "/%s", dir, step, name);
}

/* Loads, and wants that step; -1: wants none. `why` must be in the reason
 * for passing over the newest. */
static void loads(struct world *w, int64_t want, const char *why,
                  const char *what)
{
    struct error err = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    struct checkpoint_state s = {.iteration = -1};
    fill(w, 0.5F);
    int rc = checkpoint_load(dir, &w->parts, &s, &skipped, &err);
    if (want < 0)
        ok(rc < 0 && err.code == ERR_NOTFOUND && is_filled(w, 0.5F), "%s: %s",
           what, err.msg);
    else
        ok(rc == 0 && s.iteration == want && is_filled(w, (float)want),
           "%s: step %" PRId64 " %s", what, s.iteration, err.msg);
    if (why[0] == '\0')
        is_str(buf_str(&skipped), "", "none is passed over");
    else
        ok(strstr(buf_str(&skipped), why) != NULL, "it says '%s'", why);
    buf_clear(&skipped);
}

static void change_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    if (f == NULL || fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) < 0)
        abort();
    int c = fgetc(f);
    (void)fseek(f, -1, SEEK_CUR);
    (void)fputc(c ^ 4, f);
    (void)fclose(f);
}

static bool exists(const char *name)
{
    char path[160];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return stat(path, &st) == 0;
}

static void test_round_trip(struct world *w)
{
    struct error err = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    struct checkpoint_state s;
    loads(w, -1, "", "an empty directory");
    (void)save(w, 7, 2);
    is_int(checkpoint_load(dir, &w->parts, &s, &skipped, &err), 0, "load");
    ok(memcmp(&s, &state, sizeof(s)) == 0, "the position, bit by bit");
    ok(is_filled(w, 7), "parameters and momentum");
    (void)save(w, 9, 2);
    (void)save(w, 9, 2);
    loads(w, 9, "", "the same step again");
    (void)save(w, 10, 2);
    ok(!exists("step-7") && exists("step-9") && exists("step-10"),
       "two are kept");
    (void)save(w, 8, 2);
    ok(exists("step-8") && !exists("step-9") && !exists("step-10"),
       "those of a run that was given up go");
    (void)save(w, 9, 2);
}

/* step-8 and step-9 are there and good. */
static void test_damage(struct world *w)
{
    char path[160];
    struct error err = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    for (int i = 0; i < CKPT_FILES; i++) {
        path_of(path, 9, checkpoint_files[i]);
        if (i == CKPT_EMA || i == CKPT_ADAPTER) { /* these have none */
            ok(access(path, F_OK) < 0, "no %s", checkpoint_files[i]);
            continue;
        }
        change_byte(path, 40);
        loads(w, 8, checkpoint_files[i], "a byte is changed");
        (void)save(w, 9, 2);
        change_byte(path, -20);
        loads(w, 8, checkpoint_files[i], "near the end");
        (void)save(w, 9, 2);
        if (truncate(path, 100) < 0)
            abort();
        loads(w, 8, checkpoint_files[i], "a file is cut");
        (void)save(w, 9, 2);
        (void)unlink(path);
        loads(w, 8, checkpoint_files[i], "a file is gone");
        (void)save(w, 9, 2);
    }
    /* The state of one with the model of another: each is whole. */
    char from[160], to[160];
    path_of(from, 8, checkpoint_files[CKPT_MODEL]);
    path_of(to, 9, checkpoint_files[CKPT_MODEL]);
    if (rename(from, to) < 0)
        abort();
    loads(w, -1, "checksum", "files of two checkpoints");
    is_int(checkpoint_load("/nonexistent", &w->parts,
                           &(struct checkpoint_state){.iteration = 0}, &skipped,
                           &err),
           -1, "no directory");
    is_int((long long)skipped.len, 0, "  nothing is damaged there");
    (void)save(w, 8, 2);
    (void)save(w, 9, 2);
}

/* Each is named, from the newest on, also when an older one can be used. */
/* What would block its reader, or never end, stands in the place of a file of
 * the newest: the one before it is taken. */
static void test_no_files(struct world *w)
{
    static const char *const files[] = {
        "model.safetensors", "train/optim.safetensors", "train/state.json"};
    char path[160], command[64];
    for (int i = 0; i < 9; i++) {
        (void)snprintf(command, sizeof(command), "rm -rf %s/step-*", dir);
        if (system(command) != 0) /* NOLINT(cert-env33-c) */
            abort();
        if (!save(w, 20, 3) || !save(w, 21, 3))
            return;
        path_of(path, 21, files[i % 3]);
        if (unlink(path) < 0 || (i < 3   ? mkfifo(path, 0600)
                                 : i < 6 ? symlink("/dev/zero", path)
                                         : mkdir(path, 0700)) < 0)
            abort();
        (void)alarm(60);
        loads(w, 20, files[i % 3],
              i < 3   ? "a FIFO"
              : i < 6 ? "/dev/zero"
                      : "a directory");
        (void)alarm(0);
    }
    (void)snprintf(command, sizeof(command), "rm -rf %s/step-*", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
}

static void test_damaged_all(struct world *w)
{
    char path[160];
    struct error err = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    struct checkpoint_state s = {.iteration = -1};
    (void)save(w, 10, 3);
    path_of(path, 10, checkpoint_files[CKPT_STATE]);
    change_byte(path, 0);
    path_of(path, 9, checkpoint_files[CKPT_OPTIM]);
    change_byte(path, -20);
    loads(w, 8,
          "step-9: train/optim.safetensors: ", "two of three are damaged");
    path_of(path, 8, checkpoint_files[CKPT_MODEL]);
    (void)unlink(path);
    fill(w, 0.5F);
    is_int(checkpoint_load(dir, &w->parts, &s, &skipped, &err), -1,
           "all are damaged");
    const char *ten = strstr(buf_str(&skipped), "step-10: train/state.json: ");
    const char *nine =
        strstr(buf_str(&skipped), "\nstep-9: train/optim.safetensors");
    const char *eight = strstr(buf_str(&skipped), "\nstep-8: ");
    ok(err.code == ERR_NOTFOUND && ten == buf_str(&skipped) && nine > ten &&
           eight > nine && strstr(eight, checkpoint_files[CKPT_MODEL]),
       "each has its line");
    buf_clear(&skipped);
    (void)save(w, 8, 2);
    (void)save(w, 9, 2);
}

/* A disk that fails is not a file that is damaged: the work in it is not
 * thrown away. Address 0 of a process cannot be read: EIO. */
static void test_unreadable(struct world *w)
{
    struct error err = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    struct checkpoint_state s = {.iteration = -1};
    char path[160];
    for (int i = 0; i < CKPT_FILES; i++) {
        if (i == CKPT_EMA || i == CKPT_ADAPTER)
            continue;
        path_of(path, 9, checkpoint_files[i]);
        (void)unlink(path);
        if (symlink("/proc/self/mem", path) < 0)
            abort();
        fill(w, 0.5F);
        is_int(checkpoint_load(dir, &w->parts, &s, &skipped, &err), -1,
               "the newest cannot be read");
        ok(err.code == ERR_IO && s.iteration == -1 && is_filled(w, 0.5F),
           "nothing older is taken");
        ok(strstr(err.msg, "step-9") && strstr(err.msg, checkpoint_files[i]) &&
               strstr(err.msg, "remove it to go on from an older one"),
           "%s", err.msg);
        (void)unlink(path);
        (void)save(w, 9, 2);
    }
}

/* A kill in mid-write leaves step-N.tmp. */
static void test_half(struct world *w)
{
    char tmp[160], path[200];
    (void)snprintf(tmp, sizeof(tmp), "%s/step-11.tmp", dir);
    (void)snprintf(path, sizeof(path), "%s/%s", tmp, checkpoint_files[0]);
    (void)mkdir(tmp, 0700);
    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    loads(w, 9, "", "a half-written one is not seen");
    (void)save(w, 12, 2);
    ok(!exists("step-11.tmp"), "and is removed by the next");
    (void)snprintf(tmp, sizeof(tmp), "%s/step-x", dir);
    (void)mkdir(tmp, 0700);
    (void)save(w, 13, 1);
    ok(exists("step-x"), "what is not ours stays");
    (void)rmdir(tmp);
}

/* Somebody keeps notes beside a checkpoint that is written again. */
static void test_again(struct world *w)
{
    char notes[160], left[160];
    (void)save(w, 12, 2);
    (void)save(w, 13, 2);
    path_of(notes, 13, "notes");
    (void)snprintf(left, sizeof(left), "%s/step-13.tmp/notes", dir);
    (void)close(open(notes, O_CREAT | O_WRONLY, 0600));
    struct checkpoint_state s = state;
    struct error err = ERROR_INIT;
    s.iteration = 13;
    fill(w, 13);
    int rc = checkpoint_save(dir, &s, &w->parts, 2, &err);
    ok(rc == 0, "the same step again: %s", err.msg);
    loads(w, 13, "", "whether or not it was written, it is there");
    (void)save(w, 13, 2);
    (void)save(w, 13, 2);
    loads(w, 13, "", "and again");
    ok(access(notes, F_OK) == 0 || access(left, F_OK) == 0,
       "the notes are there too");
    (void)unlink(notes);
    (void)unlink(left);
    (void)save(w, 13, 1);
    ok(!exists("step-13.tmp"), "nothing is left when they go");
}

/* The mean stands in the model's place while it is written. */
static int show(void *arg, bool on, struct error *err)
{
    struct world *w = arg;
    float *p = model_params(w->model);
    (void)err;
    for (int64_t i = 0; i < w->n; i++)
        p[i] += on ? 1000 : -1000;
    return 0;
}

/* As <dir>/best, beside the others and over the one before. */
static void test_best(struct world *w)
{
    struct error err = ERROR_INIT;
    struct checkpoint_state s = state;
    char path[160], from[160], to[160];
    s.best = 0.75;
    fill(w, 99);
    ok(checkpoint_save_best(dir, &s, &w->parts, &err) == 0 &&
           checkpoint_save_best(dir, &s, &w->parts, &err) == 0 &&
           exists("best") && !exists("best.tmp"),
       "the best, twice: %s", err.msg);
    loads(w, 13, "", "it is not what a run goes on from");
    w->parts.show = show;
    w->parts.arg = w;
    fill(w, 99);
    ok(checkpoint_save_best(dir, &s, &w->parts, &err) == 0 && is_filled(w, 99),
       "with a mean: %s", err.msg);
    w->parts.show = NULL;
    /* It is a checkpoint like the others. */
    (void)snprintf(from, sizeof(from), "%s/best", dir);
    (void)snprintf(to, sizeof(to), "%s/step-14", dir);
    fill(w, 1);
    struct buf skipped = BUF_INIT;
    s.best = 0;
    ok(rename(from, to) == 0 &&
           checkpoint_load(dir, &w->parts, &s, &skipped, &err) == 0 &&
           s.best == 0.75 && skipped.len == 0 && is_filled(w, 99),
       "renamed, it can be loaded: %s", err.msg);
    path_of(path, 14, checkpoint_files[CKPT_EMA]);
    change_byte(path, 50000);
    loads(w, 13, "ema.safetensors", "a mean that is damaged");
    (void)unlink(path);
    loads(w, 13, "ema.safetensors", "or missing");
    (void)save(w, 13, 1);
}

static void test_other(struct world *w)
{
    struct error err = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    struct checkpoint_state s = {.iteration = -1};
    struct world wide;
    w->parts.arrays[0].name = "exp_avg";
    is_int(checkpoint_load(dir, &w->parts, &s, &skipped, &err), -1,
           "another optimizer");
    ok(err.code == ERR_INVAL && strstr(err.msg, "another optimizer") != NULL,
       "%s", err.msg);
    w->parts.arrays[0].name = "momentum_buffer";
    w->parts.n = 0;
    is_int(checkpoint_load(dir, &w->parts, &s, &skipped, &err), -1,
           "one without the momentum");
    ok(err.code == ERR_INVAL && strstr(err.msg, "'momentum_buffer'") != NULL,
       "%s", err.msg);
    w->parts.n = 1;
    if (!create(&wide, 0.5))
        return;
    is_int(checkpoint_load(dir, &wide.parts, &s, &skipped, &err), -1,
           "another model");
    ok(err.code == ERR_INVAL && strstr(err.msg, "shape") != NULL, "%s",
       err.msg);
    is_int(s.iteration, -1, "the position is untouched");
    destroy(&wide);
}

/* As one whose base is not there any more, after a part of its files. */
static int no_config(struct model *m, const char *step, struct error *err)
{
    (void)m;
    int rc = file_atomic_create(step, "config.json", "{}", 2, err);
    return rc < 0 ? rc : error_set(err, ERR_IO, "no base");
}

static void test_beside(struct world *w)
{
    const struct model_ops *own = w->model->ops;
    struct model_ops ops = *own;
    ops.save_config = no_config;
    w->model->ops = &ops;
    (void)save(w, 13, 1);
    w->model->ops = own;
    ok(!exists("step-13/config.json"), "a part of what lies beside is removed");
    loads(w, 13, "", "without what lies beside, a run goes on from it");
}

/* Whether a failure may have changed the model. */
static void test_one(struct world *w)
{
    struct error err = ERROR_INIT;
    struct checkpoint_state s = {.iteration = -1};
    bool is_read = true;
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/step-12", dir);
    ok(checkpoint_load_one(path, &w->parts, &s, &is_read, &err) < 0 && !is_read,
       "one that is not there: %s", err.msg);
    (void)snprintf(path, sizeof(path), "%s/step-13", dir);
    w->parts.arrays[0].name = "exp_avg";
    ok(checkpoint_load_one(path, &w->parts, &s, &is_read, &err) < 0 && is_read,
       "one that does not fit: %s", err.msg);
    w->parts.arrays[0].name = "momentum_buffer";
    ok(checkpoint_load_one(path, &w->parts, &s, &is_read, &err) == 0 &&
           is_read && s.iteration == 13 && is_filled(w, 13),
       "one that does: %s", err.msg);
}

static void counts(int64_t counted, int64_t tokens, int want, const char *what)
{
    struct error err = ERROR_INIT;
    struct checkpoint_state s = state, back;
    uint64_t crc[CKPT_STATE] = {0};
    struct buf text = BUF_INIT;
    s.counted = counted;
    s.tokens = tokens;
    is_int(checkpoint_encode(&s, crc, &text, &err), 0, "encode");
    ok(checkpoint_decode(text.data, text.len, &back, crc, &err) == want,
       "%s: %s", what, err.msg);
    buf_clear(&text);
}

/* The loss of images is averaged over samples, that of a text over tokens. */
static void test_counted(void)
{
    counts(state.samples, 0, 0, "the loss of each image");
    counts(state.samples + 1, 0, -1, "of more images than there were");
    counts(state.samples + 1, state.samples + 1, 0, "of each token");
    counts(state.samples + 2, state.samples + 1, -1, "of more tokens");
}

static void test_no_space(struct world *w)
{
    struct error err = ERROR_INIT;
    struct checkpoint_state s = state;
    s.iteration = 20;
    is_int(checkpoint_save("/proc/nowhere", &s, &w->parts, 2, &err), -1,
           "nowhere to write");
    ok(strncmp(err.msg, "checkpoint: ", 12) == 0, "%s", err.msg);
    loads(w, 13, "", "what was there still is");
}

int main(void)
{
    struct world w;
    if (mkdtemp(dir) == NULL)
        return 1;
    test_counted();
    if (create(&w, 0.25)) {
        test_no_files(&w);
        test_round_trip(&w);
        test_damage(&w);
        test_damaged_all(&w);
        test_unreadable(&w);
        test_half(&w);
        test_again(&w);
        test_best(&w);
        test_other(&w);
        test_beside(&w);
        test_one(&w);
        test_no_space(&w);
        destroy(&w);
    }
    (void)checkpoint_remove(dir, 13, "", NULL);
    is_int(rmdir(dir), 0, "nothing else is left");
    return tap_done();
}
