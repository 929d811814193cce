/* cluster_read_slurm.c - handle the lines that mgpu-slurm-helper sends.
 *
 * A restarted helper has no memory of earlier commands, and reports everything
 * that it sees again: outstanding answers will not come, and a job that the new
 * helper has not reported by the end of its first scan is gone. */
#include <math.h>
#include <stdlib.h>

#include "slurm/cluster/cluster.h"

static const double AGAIN_EVERY_S = 60; /* each costs a process */

/* ---- news from the helper -------------------------------------------------
 */
static void look_at_tag(struct cluster *c, const char *tag)
{
    struct cluster_attempt *a = tag[0] ? cluster_find_tag(c, tag) : NULL;
    if (a)
        cluster_look(c, a);
}

static void lose_all(struct cluster *c, const char *why)
{
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        cluster_lose(c, a, why);
}

static void on_hello(struct cluster *c)
{
    c->has_hello = true;
    c->is_down = c->is_blind = false;
    c->generation++; /* our own count: the helper's may start again */
    lose_all(c, "was restarted");
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        cluster_unscanned(a);
}

static void on_job(struct cluster *c, const struct helper_news *n)
{
    struct helper_job gone;
    (void)cluster_jobs_put(c, &n->job, &gone);
    look_at_tag(c, gone.tag);
    look_at_tag(c, n->job.tag);
}

/* Requests all news again, after jobs were dropped. If memory was short, it may
 * suffice now; if there were too many jobs, most have to be gone first, or the
 * same would happen. */
static void look_again(struct cluster *c)
{
    double now_s = cluster_now(c);
    bool has_room = c->n_jobs < CLUSTER_JOBS_CAP / 2;
    if (c->is_blind && has_room && now_s >= c->again_s && cluster_send_again(c))
        c->again_s = now_s + AGAIN_EVERY_S;
}

static void on_scan(struct cluster *c)
{
    struct helper_job gone;
    size_t at = 0;
    look_again(c);
    while (cluster_jobs_take_old(c, &at, &gone))
        look_at_tag(c, gone.tag);
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        cluster_scanned(c, a);
}

static void on_down(struct cluster *c, const struct helper_news *n)
{
    c->is_down = true;
    c->why_down = n->why;
    c->down_since = n->since;
    c->say_inventory = true;
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        cluster_unscanned(a);
}

static void on_up(struct cluster *c)
{
    c->is_down = false;
    c->say_inventory = true;
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        if (a->phase == CLUSTER_TO_SUBMIT)
            a->retry_s = -INFINITY;
}

static void on_nodes(struct cluster *c, struct helper_news *n)
{
    free(c->nodes);
    c->nodes = n->nodes;
    c->n_nodes = n->n_nodes;
    c->has_nodes = c->say_inventory = true;
    n->nodes = NULL;
    n->n_nodes = 0;
}

/* The list in force is replaced when the last partition has come. */
static void on_partition(struct cluster *c, const struct helper_news *n)
{
    size_t at = (size_t)n->index, count = (size_t)n->count;
    if (at == 0) {
        free(c->new_parts);
        c->new_parts = calloc(count, sizeof(*c->new_parts));
        c->n_new_parts = c->new_parts ? count : 0;
    }
    if (count != c->n_new_parts || at >= count)
        return;
    c->new_parts[at] = n->partition;
    if (at + 1 < count)
        return;
    free(c->parts);
    c->parts = c->new_parts;
    c->n_parts = count;
    c->new_parts = NULL;
    c->n_new_parts = 0;
}

/* As with partitions. The use of an account changes with each start: a plan
 * follows. */
static void on_quota(struct cluster *c, const struct helper_news *n)
{
    size_t at = (size_t)n->index, count = (size_t)n->count;
    if (at == 0) {
        free(c->new_quotas);
        c->new_quotas = calloc(count + 1, sizeof(*c->new_quotas));
        c->n_new_quotas = c->new_quotas ? count : 0;
    }
    if (count != c->n_new_quotas || (at >= count && count > 0))
        return;
    if (count > 0)
        c->new_quotas[at] = n->quota;
    if (at + 1 < count)
        return;
    free(c->quotas);
    c->quotas = c->new_quotas;
    c->n_quotas = count;
    c->new_quotas = NULL;
    c->n_new_quotas = 0;
    c->say_inventory = true;
}

/* A reply without an id answers a command that the helper could not parse: any
 * of those in flight. */
static void on_reply(struct cluster *c, const struct helper_news *n)
{
    if (n->id == 0) {
        lose_all(c, "could not parse a command");
        return;
    }
    struct cluster_attempt *a = c->first;
    while (a && a->command != n->id && a->submit != n->id)
        a = a->next;
    if (a)
        cluster_reply(c, a, n);
}

/* A line that cannot be parsed may have been an answer. An empty line
 * terminates a line that a helper left incomplete when it died. */
void cluster_news(struct cluster *c, const char *line, size_t len)
{
    struct helper_news n;
    c->heard_s = cluster_now(c);
    if (len == 0)
        return;
    if (helper_news_parse(line, len, &n, NULL) < 0) {
        lose_all(c, "sent an invalid line");
        return;
    }
    switch (n.ev) {
    case HELPER_HELLO:
        on_hello(c);
        break;
    case HELPER_REPLY:
        on_reply(c, &n);
        break;
    case HELPER_JOB:
        on_job(c, &n);
        break;
    case HELPER_GONE:
        if (cluster_jobs_drop(c, n.job.tag, n.job.slurm_id))
            look_at_tag(c, n.job.tag);
        break;
    case HELPER_SCAN:
        on_scan(c);
        break;
    case HELPER_NODES:
        on_nodes(c, &n);
        break;
    case HELPER_PARTITION:
        on_partition(c, &n);
        break;
    case HELPER_QUOTA:
        on_quota(c, &n);
        break;
    case HELPER_DOWN:
        on_down(c, &n);
        break;
    case HELPER_UP:
        on_up(c);
        break;
    }
    helper_news_clear(&n);
}
