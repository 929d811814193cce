/* env_keys_gc.c - values that sound secret: which keys are needed, and by whom.
 *
 * A submit draws an id here, and its thread makes the file. The file goes when
 * no job that may still run, and no submit that is being read, has the id: that
 * is looked for a moment after anything of the kind ended. So an end costs
 * nothing, and a crash at any edge is what the look at the start is for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/base/rng.h"
#include "scheduler/ctld/ctld_internal.h"

/* One look reads the specifications of all jobs that wait or run. It comes soon
 * after an end, and takes a hundredth of the loop's time at most. */
static const double LOOK_AFTER_S = 0.1, LOOK_SHARE = 0.01;

struct ids {
    char (*all)[SEAL_ID_CAP]; /* owned, sorted */
    size_t n, cap;
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool add_id(struct ids *s, const char *id)
{
    if (s->n == s->cap) {
        size_t cap = s->cap > 0 ? 2 * s->cap : 64;
        void *all = realloc(s->all, cap * sizeof(*s->all));
        if (!all)
            return false;
        s->all = all;
        s->cap = cap;
    }
    memcpy(s->all[s->n++], id, SEAL_ID_CAP);
    return true;
}

static bool is_used(void *arg, const char *id)
{
    const struct ids *s = arg;
    return s->n > 0 && bsearch(id, s->all, s->n, sizeof(*s->all), compare);
}

static bool find_ids(const struct ctld *c, struct ids *ret)
{
    char id[SEAL_ID_CAP];
    bool good = true;
    for (const struct ctld_seal *s = c->seals; good && s; s = s->next)
        good = add_id(ret, s->id);
    for (const struct job *j = engine_next_since(c->engine, 0, INFINITY);
         good && j; j = engine_next_since(c->engine, j->id, INFINITY))
        if (!job_state_is_final(j->state) && j->spec &&
            seal_find_text(j->spec, id))
            good = add_id(ret, id);
    if (ret->n > 0)
        qsort(ret->all, ret->n, sizeof(*ret->all), compare);
    return good;
}

void ctld_seals_look(struct ctld *c)
{
    const struct clock *clock = c->parts.clock;
    double began_s = clock->now_s(clock);
    struct ids ids = {.n = 0};
    struct error err = ERROR_INIT;
    int rc = find_ids(c, &ids) ? keys_keep(&c->keys, is_used, &ids, &err)
                               : error_set(&err, ERR_NOMEM, "keys");
    free(ids.all);
    c->keys_rest_s = (clock->now_s(clock) - began_s) / LOOK_SHARE;
    if (rc < 0)
        log_warn("ctld", "keys of jobs that have ended are left why=\"%s\"",
                 err.msg);
}

static void on_look(void *arg)
{
    ctld_seals_look(arg);
}

int ctld_seals_init(struct ctld *c, struct error *err)
{
    return keys_open(c->parts.conf->state_dir, &c->keys, err) < 0
               ? -1
               : loop_timer_create(c->loop, on_look, c, &c->keys_timer, err);
}

void ctld_seals_clear(struct ctld *c)
{
    loop_source_destroy(c->keys_timer);
    keys_clear(&c->keys);
}

static void look_soon(struct ctld *c)
{
    if (!c->stopping && !loop_timer_is_set(c->keys_timer))
        loop_timer_set(c->keys_timer, fmax(c->keys_rest_s, LOOK_AFTER_S));
}

void ctld_seals_ended(struct ctld *c, const struct job *job)
{
    if (job->spec && seal_find_text(job->spec, NULL))
        look_soon(c);
}

int ctld_seal_begin(struct ctld *c, struct ctld_seal *s, struct error *err)
{
    unsigned char bytes[(SEAL_ID_CAP - 1) / 2];
    if (rng_secret(bytes, sizeof(bytes), err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(s->id + 2 * i, 3, "%02x", bytes[i]);
    s->next = c->seals;
    c->seals = s;
    return 0;
}

void ctld_seal_end(struct ctld *c, struct ctld_seal *s)
{
    struct ctld_seal **at = &c->seals;
    while (*at && *at != s)
        at = &(*at)->next;
    if (!*at)
        return; /* it never began */
    *at = s->next;
    if (s->has_key)
        look_soon(c);
}

static int key_of(struct ctld *c, const struct worker *w,
                  unsigned char ret[SEAL_KEY_BYTES], struct error *err)
{
    const struct job *job = NULL;
    struct error why = ERROR_INIT;
    char id[SEAL_ID_CAP];
    if (engine_check_token(c->engine, w->job, w->attempt, w->token, err) < 0 ||
        ctld_find(c, w->job, &job, err) < 0)
        return -1;
    if (!job->spec || !seal_find_text(job->spec, id))
        return error_set(err, ERR_NOTFOUND, "job %llu has nothing sealed",
                         (unsigned long long)w->job);
    if (keys_read(&c->keys, id, ret, &why) == 0)
        return 0;
    log_err("ctld", "a job has lost its key job=%llu why=\"%s\"",
            (unsigned long long)w->job, why.msg);
    return error_set(err, why.code == ERR_CONFIG ? ERR_NOTFOUND : why.code,
                     "the key to job %llu's values cannot be had",
                     (unsigned long long)w->job);
}

/* For the ranks, before they claim: all have their values or none begins. The
 * job's own, whatever else a specification has that looks like it. */
void serve_key(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct worker w;
    struct error err = ERROR_INIT;
    unsigned char key[SEAL_KEY_BYTES];
    char hex[SEAL_HEX_CAP];
    if (!ctld_admit_worker(c, x, &w))
        return;
    if (key_of(c, &w, key, &err) < 0) {
        http_reply_err(x, &err);
        return;
    }
    seal_hex(key, hex);
    ctld_reply(x, 200,
               json_pack("{s:s, s:s}", "schema", "mgpu.key/1", "key", hex));
    explicit_bzero(key, sizeof(key));
    explicit_bzero(hex, sizeof(hex));
}
