/* helper_state.c - whether Slurm answers, shared by all threads of the child; a
 * change sends a line to the daemon. */
#include <string.h>

#include "jobs/base/clock.h"
#include "slurm/helper/helper.h"

void helper_down(struct helper *h, const struct error *why)
{
    (void)pthread_mutex_lock(&h->lock);
    bool is_news = !h->is_down || strcmp(h->down_why.msg, why->msg) != 0;
    if (!h->is_down)
        h->down_since = (int64_t)clock_real.wall_s(&clock_real);
    h->is_down = true;
    h->down_why = *why;
    struct helper_news n = {
        .ev = HELPER_DOWN, .why = *why, .since = h->down_since};
    (void)pthread_mutex_unlock(&h->lock);
    if (is_news)
        helper_line_send_news(h, &n);
}

void helper_up(struct helper *h)
{
    (void)pthread_mutex_lock(&h->lock);
    bool is_news = h->is_down;
    h->is_down = false;
    (void)pthread_mutex_unlock(&h->lock);
    if (is_news)
        helper_line_send_news(h, &(struct helper_news){.ev = HELPER_UP});
}

int helper_check_up(struct helper *h, struct error *err)
{
    (void)pthread_mutex_lock(&h->lock);
    bool is_down = h->is_down;
    struct error why = h->down_why;
    (void)pthread_mutex_unlock(&h->lock);
    return is_down ? error_set(err, ERR_UNAVAIL, "%s", why.msg) : 0;
}

void helper_poke(struct helper *h)
{
    (void)pthread_mutex_lock(&h->lock);
    h->is_poked = true;
    (void)pthread_cond_signal(&h->wake);
    (void)pthread_mutex_unlock(&h->lock);
}
