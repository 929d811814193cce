/* remote.c - workers that call over TCP, and those who say that they are
 * (S08), user requests that come that way. */
#include "tests/unit/ctld/tcp.h"

static struct rig r;

static int ask(const char *from, const char *method, const char *path,
               const char *token, const char *body)
{
    char header[128] = "";
    if (token)
        (void)snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n",
                       token);
    return tcp(&r, from, method, path, header, body);
}

static int worker(const char *from, const char *what, const char *token)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "/v1/attempts/%s", what);
    const char *body = strstr(what, "claim")    ? "{\"holder\":\"h 1 1\"}"
                       : strstr(what, "report") ? "{\"exit_code\":0}"
                                                : "{\"iteration\":1}\n";
    return ask(from, "POST", path, token, body);
}

static void token_of(char ret[65])
{
    pthread_mutex_lock(&r.alloc.lock);
    memcpy(ret, r.alloc.token, 65);
    pthread_mutex_unlock(&r.alloc.lock);
}

/* Submits one job and waits for its place. */
static void begin_job(int id, char token[65])
{
    char path[32];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d", id);
    is_int(call(&r, "POST", "/v1/jobs", SPEC("one"), NULL), 201, "a job");
    ok(becomes(&r, path, "\"place\":\"n1:0"), "with a place");
    token_of(token);
}

static void begin(void (*tweak)(struct ctld_conf *conf), const char *address,
                  const char *place)
{
    rig_init(&r);
    r.tweak = tweak;
    r.alloc.address = address;
    r.alloc.place = place;
    rig_up(&r, NULL);
}

static void end(void)
{
    rig_down(&r);
    rig_clear(&r);
}

static void from_nodes(struct ctld_conf *conf)
{
    conf->listen = "127.0.0.1:0";
    conf->workers_remote = true;
}

static void from_any(struct ctld_conf *conf)
{
    from_nodes(conf);
    conf->workers_from = WORKERS_FROM_ANY;
    conf->url = "http://daemon.example:7431";
}

/* ---- tests ----------------------------------------------------------------
 */

static void denied(int status, const char *why, const char *what)
{
    ok(status == 403 && has(&r, "DENIED") && has(&r, why), "%s", what);
    if (status != 403 || !has(&r, why))
        tap_diag("%d %s", status, buf_str(&r.body));
}

static void test_stolen(void)
{
    char one[65], two[65], host[65] = "", url[96];
    begin(from_nodes, "127.0.0.1", NULL);
    begin_job(1, one);
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(url, sizeof(url), "http://%s:%d", host, ctld_port(r.ctld));
    is_str(r.alloc.url, url, "workers are told this host and the port");
    begin_job(2, two);
    denied(worker("127.0.0.1", "1/1/claim", NULL), "wrong token", "no token");
    denied(worker("127.0.0.1", "1/1/claim", "0123"), "wrong token", "a guess");
    denied(worker("127.0.0.1", "1/1/claim", two), "wrong token",
           "the token of another job");
    is_int(worker("127.0.0.1", "1/2/claim", one), 404, "an attempt to come");
    denied(worker("127.0.0.2", "1/1/claim", one),
           "job 1 has no worker at 127.0.0.2", "a stolen one, elsewhere");
    ok(get(&r, "/v1/jobs/1") == 200 && has(&r, "\"state\":\"DISPATCHING\""),
       "nothing of that was a claim");
    ok(get(&r, "/v1/jobs") == 200 &&
           has(&r, "\"running\":0,\"runs\":0,\"queued\":2"),
       "what waits in the allocator is queued");
    is_int(worker("127.0.0.1", "1/1/claim", one), 200, "the worker's own");
    ok(get(&r, "/v1/jobs") == 200 &&
           has(&r, "\"running\":1,\"runs\":0,\"queued\":1"),
       "what was claimed runs");
    static const char *const others[] = {
        "1/1/heartbeat", "1/1/rows?rank=0&offset=0", "1/1/report"};
    for (size_t i = 0; i < 3; i++) {
        denied(worker("127.0.0.2", others[i], one), "no worker at", others[i]);
        denied(worker("127.0.0.1", others[i], two), "wrong token", others[i]);
        is_int(worker("127.0.0.1", others[i], one), 200, others[i]);
    }
    exits(&r, 1, 0);
    ok(becomes(&r, "/v1/jobs/1", "\"state\":\"COMPLETED\""), "the job ends");
    is_int(worker("127.0.0.1", "1/1/heartbeat", one), 403, "after its end");
    ok(has(&r, "FENCED"), "its token is good for nothing");
    is_int(worker("127.0.0.2", "1/1/claim", one), 403, "nowhere");
    is_int(get(&r, "/metrics"), 200, "metrics");
    ok(has(&r, "mgpu_refused_total 10\n"), "count what was refused");
    end();
}

static void test_users(void)
{
    char token[65];
    begin(from_nodes, NULL, NULL);
    begin_job(1, token);
    static const char *const paths[] = {"/v1/jobs",  "/v1/jobs/1",
                                        "/v1/watch", "/v1/jobs/1/logs",
                                        "/v1/nodes", "/v1/status"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        denied(ask("127.0.0.1", "GET", paths[i], NULL, NULL),
               "auth: {remote:", paths[i]);
        denied(ask("127.0.0.1", "GET", paths[i], token, NULL),
               "auth: {remote:", "a worker's token opens it no more");
    }
    denied(ask("127.0.0.1", "POST", "/v1/jobs", NULL, SPEC("x")),
           "auth: {remote:", "a submit");
    denied(ask("127.0.0.1", "POST", "/v1/jobs/1/cancel", NULL, ""),
           "auth: {remote:", "a cancel");
    is_int(ask("127.0.0.1", "GET", "/livez", NULL, NULL), 200, "livez is open");
    is_int(ask("127.0.0.1", "GET", "/readyz", NULL, NULL), 200, "readyz, too");
    end();
}

static void claims(void (*tweak)(struct ctld_conf *conf), const char *address,
                   const char *place, const char *from, int want,
                   const char *what)
{
    char token[65];
    begin(tweak, address, place);
    begin_job(1, token);
    is_int(worker(from, "1/1/claim", token), want, what);
    end();
}

static void test_origin(void)
{
    claims(from_nodes, "127.0.0.2", NULL, "127.0.0.2", 200, "the node's own");
    claims(from_nodes, NULL, NULL, "127.0.0.2", 200, "it is not known");
    claims(from_nodes, "192.0.2.99", NULL, "127.0.0.2", 403, "another node's");
    claims(from_nodes, "192.0.2.99", NULL, "127.0.0.1", 403,
           "this machine is no node");
    claims(from_nodes, "127.0.1.1", NULL, "127.0.0.1", 200,
           "the node is this machine by another name");
    claims(from_nodes, "127.0.1.1", NULL, "127.0.0.2", 403,
           "which is not any name");
    claims(from_nodes, "127.0.0.2", "n1:0 n7:0-3", "127.0.0.3", 200,
           "a node of the place is in no inventory");
    claims(from_nodes, "127.0.0.2", "n1:0 n2...", "127.0.0.2", 200,
           "the place was cut: any node's");
    claims(from_nodes, "127.0.0.2", "n1:0 n2...", "127.0.0.3", 403,
           "but not anybody's");
    claims(from_any, "127.0.0.2", NULL, "127.0.0.3", 200, "workers_from: any");
    is_str(r.alloc.url, "http://daemon.example:7431", "and the url as told");
}

int main(void)
{
    test_stolen();
    test_users();
    test_origin();
    return tap_done();
}
