/* submit_order.c - see submit_order.h. Only the call of Slurm is in order; the
 * files of the attempts are written side by side, and a user whose file system
 * hangs delays nobody else's jobs. */
#include "slurm/helper/submit_order.h"

#include <string.h>

void submit_order_init(struct submit_order *o)
{
    memset(o, 0, sizeof(*o));
    (void)pthread_mutex_init(&o->lock, NULL);
    (void)pthread_cond_init(&o->has_left, NULL);
}

void submit_order_enter(struct submit_order *o, uint64_t id, uid_t uid)
{
    (void)pthread_mutex_lock(&o->lock);
    for (int i = 0; i < SUBMIT_ORDER_CAP; i++) {
        if (o->in[i].id != 0)
            continue;
        o->in[i].id = id;
        o->in[i].uid = uid;
        o->in[i].turn = o->turn++;
        break;
    }
    (void)pthread_mutex_unlock(&o->lock);
}

/* -1: it is not there. */
static int find(const struct submit_order *o, uint64_t id)
{
    for (int i = 0; i < SUBMIT_ORDER_CAP; i++)
        if (o->in[i].id == id)
            return i;
    return -1;
}

static bool is_first(const struct submit_order *o, uint64_t id)
{
    int at = find(o, id);
    for (int i = 0; at >= 0 && i < SUBMIT_ORDER_CAP; i++)
        if (o->in[i].id != 0 && o->in[i].uid == o->in[at].uid &&
            o->in[i].turn < o->in[at].turn)
            return false;
    return true;
}

bool submit_order_is_first(struct submit_order *o, uint64_t id)
{
    (void)pthread_mutex_lock(&o->lock);
    bool is = is_first(o, id);
    (void)pthread_mutex_unlock(&o->lock);
    return is;
}

void submit_order_wait(struct submit_order *o, uint64_t id)
{
    (void)pthread_mutex_lock(&o->lock);
    while (!is_first(o, id))
        (void)pthread_cond_wait(&o->has_left, &o->lock);
    (void)pthread_mutex_unlock(&o->lock);
}

void submit_order_leave(struct submit_order *o, uint64_t id)
{
    (void)pthread_mutex_lock(&o->lock);
    int at = find(o, id);
    if (at >= 0)
        o->in[at].id = 0;
    (void)pthread_cond_broadcast(&o->has_left);
    (void)pthread_mutex_unlock(&o->lock);
}
