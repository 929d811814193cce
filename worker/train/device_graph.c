/* device_graph.c - see device_graph.h. */
#include "worker/train/device_graph.h"

#include <stdlib.h>
#include <string.h>

static bool is_allowed(void)
{
    const char *v = getenv("MGPU_CUDA_GRAPHS");
    return v == NULL || strcmp(v, "0") != 0;
}

void device_graph_init(struct replay *r, struct device *dev)
{
    bool can = dev->ops->capture_begin != NULL && is_allowed();
    *r = (struct replay){.dev = can ? dev : NULL};
}

static void forget(struct replay *r)
{
    for (int32_t i = 0; i < r->n; i++)
        r->dev->ops->graph_free(r->dev, r->pieces[i]);
    r->n = 0;
    r->is_kept = false;
}

void device_graph_clear(struct replay *r)
{
    if (r->dev != NULL)
        forget(r);
    memset(r, 0, sizeof(*r));
}

enum replay_what device_graph_next(struct replay *r)
{
    if (r->dev == NULL)
        return REPLAY_RUN;
    if (r->is_kept)
        return REPLAY_LAUNCH;
    bool had_run = r->has_run;
    r->has_run = true;
    return had_run ? REPLAY_CAPTURE : REPLAY_RUN;
}

int device_graph_begin(struct replay *r, struct error *err)
{
    if (r->dev->ops->capture_begin(r->dev, err) < 0)
        return -1;
    r->is_open = true;
    return 0;
}

static int end_piece(struct replay *r, int64_t note, struct error *err)
{
    r->is_open = false;
    if (r->dev->ops->capture_end(r->dev, &r->pieces[r->n], err) < 0)
        return -1;
    r->notes[r->n++] = note;
    return 0;
}

bool device_graph_can_cut(const struct replay *r)
{
    return r->n < REPLAY_PIECES - 1;
}

int device_graph_cut(struct replay *r, int64_t note, struct error *err)
{
    return end_piece(r, note, err);
}

int device_graph_end(struct replay *r, bool failed, struct error *err)
{
    struct graph *unused = NULL;
    if (!failed && end_piece(r, 0, err) == 0) {
        r->is_kept = true;
        return 0;
    }
    if (r->is_open && r->dev->ops->capture_end(r->dev, &unused, NULL) == 0)
        r->dev->ops->graph_free(r->dev, unused);
    forget(r);
    *r = (struct replay){.dev = NULL};
    return -1;
}

int device_graph_piece(struct replay *r, int32_t i, struct error *err)
{
    return r->dev->ops->launch(r->dev, r->pieces[i], err);
}
