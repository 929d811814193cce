/* gpu_figures.c - the share of a GPU's limit that a job reached, and the advice
 * that follows from it. */
#include "jobs/advice/gpu_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static json_t *load(const char *text)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    if (!o)
        tap_diag("fixture: %s", why.text);
    return o;
}

/* Of an iteration of rank 0 as long as t. */
static void add(json_t *its, json_t *values, int attempt, int at, double t,
                double sol)
{
    for (int rank = 0; rank < 2; rank++)
        (void)json_array_append_new(
            its, json_pack("[i,i,i,f]", attempt, rank, at, t));
    (void)json_array_append_new(
        values, json_pack("[i,i,i,s,f]", attempt, 0, at, "lr_scale", 9.0));
    if (sol > 0)
        (void)json_array_append_new(
            values, json_pack("[i,i,i,s,f]", attempt, 0, at, "sol", sol));
}

/* Two attempts, the second of which begins behind a checkpoint at 4. Counted
 * are 4 and 5 of the first, of 1 s with 0.5 and 3 s with 0.1, and 8 of the
 * second, of 4 s with 0.25; 7 has none, because it captured a graph. */
static json_t *reply_of(const char *kind, json_t **ret_iterations)
{
    json_t *its = json_array(), *values = json_array();
    (void)json_array_append_new(
        values, json_pack("[i,i,n,s,f]", 1, 0, "batch_fits", 4.0));
    for (int at = 1; at <= 5; at++)
        add(its, values, 1, at, at == 5 ? 3 : 1,
            at < 4 ? 0.9 : (at == 4 ? 0.5 : 0.1));
    (void)json_array_append_new(
        values, json_pack("[i,i,n,s,f]", 2, 0, "batch_fits", 8.0));
    for (int at = 4; at <= 8; at++)
        add(its, values, 2, at, at == 8 ? 4 : 1,
            at < 7 ? 0.9 : (at == 7 ? 0 : 0.25));
    *ret_iterations = json_pack("{s:[s,s,s,s], s:o}", "columns", "attempt",
                                "rank", "iteration", "t_iter", "rows", its);
    return json_pack("{s:{s:s}, s:{s:[s,s,s,s,s], s:o}}", "job", "kind", kind,
                     "values", "columns", "attempt", "rank", "iteration",
                     "name", "value", "rows", values);
}

static void test_limit(void)
{
    json_t *its = NULL, *reply = reply_of("llm", &its);
    struct gpu_figures g = gpu_figures_of(reply, its);
    const double floor_s = 1 * 0.5 + 3 * 0.1 + 4 * 0.25;
    ok(fabs(g.limit - floor_s / 8) < 1e-12,
       "the floor over the time, without warm-up: %g", g.limit);
    is_int(g.batch_fits, 8, "what fits, of the last attempt");
    ok(isnan(g.memory) && isnan(g.busy), "nothing else is known");
    (void)json_object_set_new(
        reply, "first_values",
        load("{\"columns\":[\"attempt\",\"rank\",\"iteration\",\"name\","
             "\"value\"],\"rows\":[[3,0,null,\"batch_fits\",16.0]]}"));
    g = gpu_figures_of(reply, its);
    is_int(g.batch_fits, 16, "by the first values, where the others lack it");
    json_decref(reply);
    json_decref(its);
    reply = reply_of("command", &its);
    g = gpu_figures_of(reply, its);
    ok(isnan(g.limit) && g.batch_fits == 0,
       "a program may call something else sol");
    json_decref(reply);
    json_decref(its);
    its = load("{\"columns\":[],\"rows\":[]}");
    reply = load("{\"job\":{\"kind\":\"cv\"}}");
    g = gpu_figures_of(reply, its);
    ok(isnan(g.limit) && g.batch_fits == 0, "no values, no share");
    json_decref(reply);
    json_decref(its);
}

#define UNPACKED                                                  \
    "{\"kind\":\"llm\",\"spec\":{\"method\":\"lora\",\"train\":{" \
    "\"batch_size\":2,\"dataset\":{\"packed\":false}}}}"
#define PACKED                                                    \
    "{\"kind\":\"llm\",\"spec\":{\"method\":\"lora\",\"train\":{" \
    "\"batch_size\":2,\"dataset\":{\"packed\":true}}}}"
#define PAIRS                                                    \
    "{\"kind\":\"llm\",\"spec\":{\"method\":\"dpo\",\"train\":{" \
    "\"batch_size\":2,\"dataset\":{\"packed\":false}}}}"
#define IMAGES "{\"kind\":\"cv\",\"spec\":{\"train\":{\"batch_size\":2}}}"

static const struct {
    const char *name, *job;
    double limit, computing, other;
    int64_t fits;
    const char *want;
} notes[] = {
    {"text in rows of its own", UNPACKED, 0.3, 0.9, 0.05, 8,
     "  * Batch 2 leaves 60 % of the GPU idle while it computes:\n"
     "    train.batch_size 8 fits, or pack: train.dataset.packed: true.\n"},
    {"no larger batch fits", UNPACKED, 0.3, 0.9, 0.05, 2,
     "  * Batch 2 leaves 60 % of the GPU idle while it computes:\n"
     "    pack: train.dataset.packed: true.\n"},
    {"packed text", PACKED, 0.3, 0.9, 0.05, 8,
     "  * Batch 2 leaves 60 % of the GPU idle while it computes:\n"
     "    train.batch_size 8 fits.\n"},
    {"images", IMAGES, 0.3, 0.9, 0.05, 4,
     "  * Batch 2 leaves 60 % of the GPU idle while it computes:\n"
     "    train.batch_size 4 fits.\n"},
    {"packed, and no larger batch fits", PACKED, 0.3, 0.9, 0.05, 2, ""},
    {"pairs are packed already", PAIRS, 0.3, 0.9, 0.05, 2, ""},
    {"waiting for data is the larger loss", UNPACKED, 0.1, 0.45, 0.5, 8, ""},
    {"as good as it gets", UNPACKED, 0.65, 0.9, 0.05, 8, ""},
    {"an unknown limit", UNPACKED, NAN, 0.9, 0.05, 8, ""},
    {"unknown phases", UNPACKED, 0.3, NAN, NAN, 8, ""},
};

static void test_note(size_t i)
{
    const struct gpu_figures g = {.limit = notes[i].limit,
                                  .batch_fits = notes[i].fits};
    json_t *job = load(notes[i].job);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    const int n =
        gpu_figures_note(out, job, &g, notes[i].computing, notes[i].other);
    (void)fclose(out);
    is_str(text, notes[i].want, notes[i].name);
    is_int(n, notes[i].want[0] != '\0', "as many notes");
    free(text);
    json_decref(job);
}

int main(void)
{
    test_limit();
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        test_note(i);
    return tap_done();
}
