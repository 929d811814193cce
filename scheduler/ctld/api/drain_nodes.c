/* drain_nodes.c - nodes on which administrators let no job start; running jobs
 * continue. As with a pause, the daemon writes a line of admin.log first, and
 * keeps nothing else. A failed GPU is out of use without such a line, until its
 * node is resumed. */
#include "scheduler/ctld/api/drain_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/request/reply.h"

struct drained_node {
    char node[ALLOC_NODE_NAME_CAP], why[WIRE_DRAIN_WHY_CAP];
    char since[WIRE_TIME_CAP];
    int64_t uid;
};

struct drained_nodes {
    struct drained_node *nodes;     /* owned, as the next [n] */
    struct engine_drained *drained; /* the same for the engine */
    size_t n;
};

static size_t find(const struct ctld *c, const char *node)
{
    size_t i = 0;
    while (i < c->drained_nodes->n &&
           strcmp(c->drained_nodes->nodes[i].node, node) != 0)
        i++;
    return i;
}

static void show_engine(struct ctld *c)
{
    c->engine_conf.drained = c->drained_nodes->drained;
    c->engine_conf.n_drained = c->drained_nodes->n;
}

static void remove_at(struct ctld *c, size_t i)
{
    c->drained_nodes->n--;
    memmove(&c->drained_nodes->nodes[i], &c->drained_nodes->nodes[i + 1],
            (c->drained_nodes->n - i) * sizeof(*c->drained_nodes->nodes));
    memmove(&c->drained_nodes->drained[i], &c->drained_nodes->drained[i + 1],
            (c->drained_nodes->n - i) * sizeof(*c->drained_nodes->drained));
}

static void put(struct ctld *c, size_t i, const struct drained_node *d)
{
    struct engine_drained *e = &c->drained_nodes->drained[i];
    (void)snprintf(e->node, sizeof(e->node), "%s", d->node);
    (void)snprintf(e->why, sizeof(e->why), "drained by uid %lld%s%s",
                   (long long)d->uid, d->why[0] ? ": " : "", d->why);
    c->drained_nodes->nodes[i] = *d;
}

static int add(struct ctld *c, const struct drained_node *d, struct error *err)
{
    size_t n = c->drained_nodes->n + 1;
    struct drained_node *drains =
        realloc(c->drained_nodes->nodes, n * sizeof(*drains));
    if (drains)
        c->drained_nodes->nodes = drains;
    struct engine_drained *drained =
        realloc(c->drained_nodes->drained, n * sizeof(*drained));
    if (drained)
        c->drained_nodes->drained = drained;
    show_engine(c);
    if (!drains || !drained)
        return error_set(err, ERR_NOMEM, "drained nodes");
    put(c, c->drained_nodes->n++, d);
    return 0;
}

int drain_nodes_repeat(struct ctld *c, const char *node, bool is_drain,
                       int64_t uid, const char *at, const char *why,
                       struct error *err)
{
    struct drained_node d = {.uid = uid};
    size_t i = find(c, node);
    bool is_so = i < c->drained_nodes->n;
    int rc = 0;

    (void)snprintf(d.node, sizeof(d.node), "%s", node);
    (void)snprintf(d.why, sizeof(d.why), "%s", why);
    (void)snprintf(d.since, sizeof(d.since), "%s", at);
    if (is_drain && is_so) { /* for another reason, since it was drained */
        (void)snprintf(d.since, sizeof(d.since), "%s",
                       c->drained_nodes->nodes[i].since);
        put(c, i, &d);
    } else if (is_drain)
        rc = add(c, &d, err);
    else if (is_so)
        remove_at(c, i);
    show_engine(c);
    if (rc == 0 && is_drain != is_so)
        engine_drained_changed(c->engine, is_drain);
    return rc;
}

int drain_nodes_init(struct ctld *c, struct error *err)
{
    c->drained_nodes = calloc(1, sizeof(*c->drained_nodes));
    return c->drained_nodes ? 0 : error_set(err, ERR_NOMEM, "drained nodes");
}

void drain_nodes_clear(struct ctld *c)
{
    if (!c->drained_nodes)
        return;
    free(c->drained_nodes->nodes);
    free(c->drained_nodes->drained);
    free(c->drained_nodes);
    c->drained_nodes = NULL;
}

const struct engine_drained *drain_nodes_of_engine(const struct ctld *c,
                                                   size_t *ret_n)
{
    *ret_n = c->drained_nodes->n;
    return c->drained_nodes->drained;
}

json_t *drain_nodes_json(const struct ctld *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->drained_nodes->n; i++) {
        const struct drained_node *d = &c->drained_nodes->nodes[i];
        (void)json_array_append_new(
            list, json_pack("{s:o, s:I, s:o, s:o}", "node", ctld_text(d->node),
                            "uid", (json_int_t)d->uid, "since",
                            ctld_text(d->since), "why", ctld_text(d->why)));
    }
    return list;
}

/* err  ERR_NOTFOUND there is no such node, as far as is known */
static int check_node(const struct ctld *c, const char *node, bool is_drain,
                      struct error *err)
{
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    if (!is_drain && find(c, node) < c->drained_nodes->n)
        return 0; /* it may have gone since */
    for (size_t i = 0; i < n; i++)
        if (strcmp(nodes[i].name, node) == 0)
            return 0;
    return error_set(err, ERR_NOTFOUND,
                     "no node '%.64s'; see mgpu-stat --nodes", node);
}

/* GPUs of it are out of use by themselves. */
static bool has_failed(const struct ctld *c, const char *node)
{
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    for (size_t i = 0; i < n; i++)
        if (nodes[i].gpus_drained > 0 && strcmp(nodes[i].name, node) == 0)
            return true;
    return false;
}

static int change(struct ctld *c, int64_t uid, const char *node, bool is_drain,
                  const char *why, struct error *err)
{
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    char at[WIRE_TIME_CAP];

    if (check_node(c, node, is_drain, err) < 0)
        return -1;
    size_t i = find(c, node);
    bool is_so = is_drain == (i < c->drained_nodes->n);
    bool mends = !is_drain && has_failed(c, node);
    if (is_so && !mends &&
        (!is_drain || !*why ||
         strcmp(why, c->drained_nodes->nodes[i].why) == 0))
        return 0;
    json_t *detail =
        json_pack("{s:o, s:o}", "node", ctld_text(node), "why", ctld_text(why));
    if (is_so && is_drain && detail)
        (void)json_object_set_new(detail, "old",
                                  ctld_text(c->drained_nodes->nodes[i].why));
    if (audit_log_add(c->audit_log, now_s, uid, is_drain ? "drain" : "resume",
                      detail, err) < 0)
        return -1;
    wire_time(now_s, at);
    if (drain_nodes_repeat(c, node, is_drain, uid, at, why, err) < 0)
        return -1;
    if (mends)
        (void)engine_mend(c->engine, node);
    log_notice("admin", "%s node=\"%s\" uid=%lld why=\"%s\"",
               is_drain ? "drain" : "resume", node, (long long)uid, why);
    ctld_step_want(c);
    return 0;
}

void drain_nodes_serve(struct ctld *c, struct http_exchange *x,
                       const json_t *body, bool is_drain, const char *why)
{
    const char *node = json_string_value(json_object_get(body, "node"));
    struct error err = ERROR_INIT;
    int rc = !node ? error_set(&err, ERR_INVAL, "expected {\"node\":\"NAME\"}")
             : strlen(why) >= sizeof(c->drained_nodes->nodes[0].why)
                 ? error_set(&err, ERR_INVAL,
                             "why: expected a text of less than %zu bytes",
                             sizeof(c->drained_nodes->nodes[0].why))
                 : change(c, http_uid(x), node, is_drain, why, &err);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        ctld_reply(x, 200,
                   json_pack("{s:s, s:o}", "schema", "mgpu.drain/1", "drained",
                             drain_nodes_json(c)));
}
