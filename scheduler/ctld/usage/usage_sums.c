/* usage_sums.c - see usage_sums.h. */
#include "scheduler/ctld/usage/usage_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "slurm/alloc.h"
#include "slurm/place_text.h"

enum { GPUS_MAX = 1024 }; /* of a node, see place_text.h */

int usage_by_of(const char *word, enum usage_by *ret)
{
    static const char *const words[] = {"user", "account", "class", "node"};
    for (int i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum usage_by)i;
            return 0;
        }
    return -1;
}

/* ---- a row ----------------------------------------------------------------
 */
struct usage_attempt usage_attempt_of(const struct store_cell *cells, size_t n)
{
    const struct store_cell *uid = store_cell(cells, n, "uid");
    return (struct usage_attempt){
        .job = (uint64_t)store_cell(cells, n, "job")->i,
        .attempt = (int32_t)store_cell(cells, n, "attempt")->i,
        .gpus = (int32_t)store_cell(cells, n, "gpus")->i,
        .uid = uid->kind == CELL_INT ? uid->i : -1,
        .user = store_cell_text(cells, n, "user"),
        .account = store_cell_text(cells, n, "account"),
        .class = store_cell_text(cells, n, "class"),
        .place = store_cell_text(cells, n, "place"),
        .state = store_cell_text(cells, n, "state"),
        .submit_s = store_cell_real(cells, n, "submitted_at"),
        .claim_s = store_cell_real(cells, n, "claimed_at"),
        .end_s = store_cell_real(cells, n, "ended_at"),
    };
}

/* ---- sums -----------------------------------------------------------------
 */
void usage_sums_init(struct usage_sums *s, enum usage_by by, double since_s,
                     double until_s)
{
    *s = (struct usage_sums){.by = by, .since_s = since_s, .until_s = until_s};
    buf_init(&s->parts);
    buf_init(&s->waits);
}

void usage_sums_clear(struct usage_sums *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->v[i].name);
        free(s->v[i].job_name);
    }
    free(s->v);
    buf_clear(&s->parts);
    buf_clear(&s->waits);
    s->v = NULL;
    s->n = s->cap = 0;
}

static int grow(struct usage_sums *s, struct error *err)
{
    size_t cap = s->cap ? 2 * s->cap : 16;
    struct usage_sum *v = realloc(s->v, cap * sizeof(*v));
    if (!v)
        return error_set(err, ERR_NOMEM, "%zu sums", cap);
    s->v = v;
    s->cap = cap;
    return 0;
}

/* The index of the name's sum, which it makes if there is none. */
static int sum_of(struct usage_sums *s, const char *name, size_t len,
                  uint32_t *ret, struct error *err)
{
    for (size_t i = s->n; i-- > 0;) /* the newest: often the same again */
        if (strncmp(s->v[i].name, name, len) == 0 && !s->v[i].name[len]) {
            *ret = (uint32_t)i;
            return 0;
        }
    if (s->n == s->cap && grow(s, err) < 0)
        return -1;
    char *copy = strndup(name, len);
    if (!copy)
        return error_set(err, ERR_NOMEM, "a sum");
    *ret = (uint32_t)s->n;
    s->v[s->n++] = (struct usage_sum){.name = copy};
    return 0;
}

static bool is_failure(const char *state)
{
    enum job_state s;
    return state && job_state_from_name(state, &s) == 0 &&
           (s == JOB_FAILED || s == JOB_TIMEOUT || s == JOB_NODE_FAIL);
}

/* The time of the attempt within the period; not 0 or more: none. */
static double time_within(const struct usage_sums *s,
                          const struct usage_attempt *a)
{
    double to_s = isnan(a->end_s) ? s->until_s : fmin(a->end_s, s->until_s);
    return isnan(a->claim_s) ? a->claim_s : to_s - fmax(a->claim_s, s->since_s);
}

/* A job waits until the first claim of an attempt; the ones before were taken
 * back, refused or never claimed. Called before the attempt is noted. */
static int add_wait(struct usage_sums *s, const struct usage_attempt *a,
                    uint32_t at, struct error *err)
{
    struct usage_wait wait = {.job = a->job,
                              .attempt = a->attempt,
                              .sum = at,
                              .wait_s = a->claim_s - a->submit_s};
    if (s->was_claimed || !(a->claim_s >= s->since_s) || !(wait.wait_s >= 0))
        return 0;
    if (s->n_seen < a->attempt - 1)
        return buf_add(&s->waits, &wait, sizeof(wait), err);
    usage_sums_wait(s, &wait);
    return 0;
}

static int add_to(struct usage_sums *s, const struct usage_attempt *a,
                  const char *name, size_t len, int32_t gpus, struct error *err)
{
    uint32_t at;
    if (sum_of(s, name, len, &at, err) < 0)
        return -1;
    struct usage_sum *u = &s->v[at];
    struct usage_part part = {.job = a->job,
                              .attempt = a->attempt,
                              .sum = at,
                              .gpu_s = gpus * time_within(s, a)};
    u->jobs += u->last_job != a->job;
    u->last_job = a->job;
    u->failed += is_failure(a->state) && a->end_s <= s->until_s;
    u->gpu_s += part.gpu_s;
    if (add_wait(s, a, at, err) < 0)
        return -1;
    return part.gpu_s > 0 && !a->is_closed
               ? buf_add(&s->parts, &part, sizeof(part), err)
               : 0;
}

/* The GPUs that a word of a place names: "n1:0,2". A word that was cut names
 * none. */
static int32_t gpus_of(const char *word, size_t len)
{
    unsigned char used[GPUS_MAX] = {0};
    char one[ALLOC_PLACE_CAP];
    int32_t n = 0;
    if (len >= sizeof(one))
        return 0;
    memcpy(one, word, len);
    one[len] = '\0';
    if (place_text_parse(one, used, GPUS_MAX, NULL) < 0)
        return 0;
    for (int i = 0; i < GPUS_MAX; i++)
        n += used[i];
    return n;
}

static int add_nodes(struct usage_sums *s, const struct usage_attempt *a,
                     struct error *err)
{
    for (const char *p = a->place ? a->place : ""; *p;) {
        size_t word = strcspn(p, " "), len = strcspn(p, ": ");
        if (strncmp(p, "...", 3) != 0 &&
            add_to(s, a, p, len, gpus_of(p, word), err) < 0)
            return -1;
        p += word;
        p += *p == ' ';
    }
    return 0;
}

static int add_attempt(struct usage_sums *s, const struct usage_attempt *a,
                       struct error *err)
{
    if (!(time_within(s, a) >= 0))
        return 0;
    if (s->by == USAGE_NODE)
        return add_nodes(s, a, err);
    const char *name = s->by == USAGE_USER      ? a->user
                       : s->by == USAGE_ACCOUNT ? a->account
                                                : a->class;
    name = name ? name : "";
    return add_to(s, a, name, strlen(name), a->gpus, err);
}

int usage_sums_add(struct usage_sums *s, const struct usage_attempt *a,
                   struct error *err)
{
    if (a->job != s->job) {
        s->job = a->job;
        s->n_seen = 0;
        s->was_claimed = false;
    }
    int rc = add_attempt(s, a, err);
    s->n_seen++;
    s->was_claimed = s->was_claimed || !isnan(a->claim_s);
    return rc;
}

void usage_sums_wait(struct usage_sums *s, const struct usage_wait *wait)
{
    s->v[wait->sum].waits++;
    s->v[wait->sum].wait_s += wait->wait_s;
}

void usage_sums_measure(struct usage_sums *s, const struct usage_part *part,
                        double share)
{
    if (!isfinite(share))
        return;
    s->v[part->sum].measured_s += part->gpu_s;
    s->v[part->sum].busy_s += share * part->gpu_s;
}

int usage_sums_name(struct usage_sums *s, size_t i, const char *job_name,
                    struct error *err)
{
    char *copy = strdup(job_name);
    if (!copy)
        return error_set(err, ERR_NOMEM, "a name");
    free(s->v[i].job_name);
    s->v[i].job_name = copy;
    return 0;
}

/* ---- reply ----------------------------------------------------------------
 */
static int by_use(const void *x, const void *y)
{
    const struct usage_sum *a = x, *b = y;
    int c = (a->gpu_s < b->gpu_s) - (a->gpu_s > b->gpu_s);
    return c ? c : strcmp(a->name, b->name);
}

static json_t *hours(double seconds)
{
    return json_real(seconds / 3600);
}

json_t *usage_sums_rows(struct usage_sums *s)
{
    json_t *rows = json_array();
    if (s->n > 0)
        qsort(s->v, s->n, sizeof(*s->v), by_use);
    for (size_t i = 0; rows && i < s->n; i++) {
        const struct usage_sum *u = &s->v[i];
        bool is_known = u->measured_s > 0;
        json_t *o =
            json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "name",
                      u->name[0] ? json_string(u->name) : json_null(), "jobs",
                      (json_int_t)u->jobs, "failed", (json_int_t)u->failed,
                      "gpu_hours", hours(u->gpu_s), "measured_gpu_hours",
                      hours(u->measured_s), "busy_gpu_hours",
                      is_known ? hours(u->busy_s) : json_null(), "mean_wait_s",
                      u->waits > 0 ? json_real(u->wait_s / (double)u->waits)
                                   : json_null());
        const char *job = u->job_name;
        if (o && s->by == USAGE_CLASS &&
            json_object_set_new(o, "job_name",
                                job ? json_string(job) : json_null()) < 0) {
            json_decref(o);
            o = NULL;
        }
        if (!o || json_array_append_new(rows, o) < 0) {
            json_decref(rows);
            return NULL;
        }
    }
    return rows;
}
