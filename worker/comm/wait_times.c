/* wait_times.c - see wait_times.h. */
#include "worker/comm/wait_times.h"

#include "jobs/base/clock.h"

void wait_times_init(struct wait_times *ret, struct device *dev, int32_t mark)
{
    *ret = (struct wait_times){.dev = dev, .mark = mark};
}

static void read_pair(struct wait_times *w, int32_t i)
{
    const int32_t mark = w->mark + 2 * i;
    double s = 0;
    if (w->pair[i].is_open &&
        w->dev->ops->elapsed(w->dev, mark, mark + 1, &s, NULL) == 0)
        w->s[w->pair[i].kind] += s;
    w->pair[i].is_open = false;
}

int wait_times_begin(struct wait_times *w, struct error *err)
{
    if (w->depth++ > 0)
        return 0;
    w->since_s = clock_real.now_s(&clock_real);
    if (w->dev->ops->mark == NULL)
        return 0;
    read_pair(w, w->next);
    return w->dev->ops->mark(w->dev, w->mark + 2 * w->next, err);
}

int wait_times_end(struct wait_times *w, int rc, struct error *err)
{
    const int32_t i = w->next;
    if (--w->depth > 0 || rc < 0)
        return rc;
    if (w->dev->ops->mark == NULL) {
        w->s[w->kind] += clock_real.now_s(&clock_real) - w->since_s;
        return 0;
    }
    w->next = (i + 1) % WAIT_PAIRS;
    w->pair[i].is_open = true;
    w->pair[i].kind = w->kind;
    return w->dev->ops->mark(w->dev, w->mark + 2 * i + 1, err);
}

void wait_times_read(struct wait_times *w)
{
    for (int32_t i = 0; i < WAIT_PAIRS; i++)
        read_pair(w, i);
}
