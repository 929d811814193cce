/* admin_nodes.c - mgpu-admin drain and resume for nodes; see admin_nodes.h.
 *
 * Each node is one request. The list of drained nodes comes from the last
 * reply.
 */
#include "scheduler/tools/admin/admin_nodes.h"

#include <stdio.h>

#include "scheduler/tools/common/render.h"

static void tell(const struct admin_nodes *conf, const char *node,
                 const struct error *why, json_t *report)
{
    char safe[600];
    if (conf->json)
        (void)json_array_append_new(
            report, why ? json_pack("{s:s, s:s, s:s}", "node", node, "code",
                                    error_word(why->code), "message", why->msg)
                        : json_pack("{s:s}", "node", node));
    else if (why)
        (void)fprintf(stderr, "mgpu-admin: %s\n",
                      render_escape(why->msg, safe, sizeof(safe)));
    else if (!conf->quiet)
        printf("%s: %s\n", render_escape(node, safe, sizeof(safe)),
               conf->drains ? "nothing new is started there" : "in use again");
}

/* Prints the drained nodes from the last reply, if there is one. */
static int print(struct client *c, const json_t *last, json_t *report,
                 struct error *err)
{
    json_t *status = NULL;
    int rc = last ? 0 : client_get(c, &status, err, "/v1/status");
    json_t *drained = json_object_get(last ? last : status, "drained");
    json_t *o = json_pack("{s:s, s:O?, s:O}", "schema", "mgpu.drain/1",
                          "drained", drained, "nodes", report);
    if (rc == 0)
        rc = client_print(o, err);
    json_decref(o);
    json_decref(status);
    return rc;
}

static json_t *body_of(const struct admin_nodes *conf, const char *node)
{
    return json_pack("{s:s, s:s}", "node", node, "why", conf->why);
}

/* Checks all words before the first request. */
static int check(const struct admin_nodes *conf, char **nodes, int n,
                 struct error *err)
{
    for (int i = 0; i < n; i++) {
        json_t *body = body_of(conf, nodes[i]);
        if (!body)
            return error_set(err, ERR_INVAL,
                             "the node, or the reason, is not UTF-8");
        json_decref(body);
    }
    return 0;
}

int admin_nodes(struct client *c, const struct admin_nodes *conf, char **nodes,
                int n, int *ret_exit, struct error *err)
{
    const char *path = conf->drains ? "/v1/admin/drain" : "/v1/admin/resume";
    json_t *last = NULL, *report = json_array();
    int rc = check(conf, nodes, n, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        struct error why = ERROR_INIT;
        json_t *reply = NULL, *body = body_of(conf, nodes[i]);
        bool is_bad = client_post(c, path, body, NULL, &reply, &why) < 0;
        if (is_bad && (n == 1 || why.code == ERR_UNAVAIL))
            rc = error_set(err, why.code, "%s", why.msg);
        else
            tell(conf, nodes[i], is_bad ? &why : NULL, report);
        if (is_bad && error_exit_status(why.code) > *ret_exit)
            *ret_exit = error_exit_status(why.code);
        if (reply) {
            json_decref(last);
            last = reply;
        }
        json_decref(body);
    }
    if (rc == 0 && conf->json)
        rc = print(c, last, report, err);
    json_decref(report);
    json_decref(last);
    return rc;
}
