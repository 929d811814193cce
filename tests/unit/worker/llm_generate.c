/* llm_generate.c - what a model generates: the greedy ids of transformers, with
 * and without kept keys and values; tokens that are drawn; what ends them.
 */
#include <math.h>

#include "tests/golden/golden.h"
#include "tests/unit/worker/llm_files.h"
#include "tests/unit/worker/llm_rig.h"
#include "worker/llm/llama_ends.h"
#include "worker/llm/token_choice.h"

enum { PROMPT = 6, MORE = 24 };

/* How the memory is laid out, and whether keys and values are kept. */
struct way {
    const char *name;
    bool generates, recomputes, no_cache;
};
static const struct way ways[] = {
    {"only answers", true, false, false},
    {"only answers, no cache", true, false, true},
    {"in training", false, false, false},
    {"activation checkpointing", false, true, false},
};

/* tests/golden/archs.py: other architectures. */
static const char *const archs[] = {"qwen2", "biases", "mistral", "qwen3"};

static int seen; /* by each() */

static int each(void *arg, int32_t id, struct error *err)
{
    const int32_t *want = arg;
    if (id != want[seen])
        return error_set(err, ERR_INVAL, "another id");
    seen++;
    return 0;
}

static void test_golden(const struct golden *g, const char *model,
                        const char *adapter, const struct way *w)
{
    struct error err = ERROR_INIT;
    char of[96], dir[4096], path[4096], line[80];
    struct llm_rig rig;
    int32_t ids[PROMPT + MORE], want[MORE], all = 0;
    size_t n, more;
    (void)snprintf(of, sizeof(of), "tests/data/llama-%s", model);
    (void)golden_path(of, dir);
    (void)snprintf(of, sizeof(of), "tests/data/llama-%s/%s", model, adapter);
    (void)golden_path(of, path);
    const bool has = strcmp(adapter, "-") != 0;
    const struct llama_conf conf = {.dt = DT_F64,
                                    .is_full = !has,
                                    .rank = 4,
                                    .alpha = 8,
                                    .targets = has ? 127 : 0,
                                    .batch = 1,
                                    .batch_eval = 1,
                                    .row_tokens = PROMPT + MORE,
                                    .generates = w->generates,
                                    .recomputes = w->recomputes,
                                    .dir = dir,
                                    .adapter = has ? path : NULL};
    (void)snprintf(line, sizeof(line), "%s %s prompt", model, adapter);
    double *prompt = golden_get(g, line, &n);
    (void)snprintf(line, sizeof(line), "%s %s greedy", model, adapter);
    double *greedy = golden_get(g, line, &more);
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)prompt[i];
    for (int i = 0; i < MORE; i++)
        want[i] = (int32_t)greedy[i];
    const struct llama_choice c = {
        .no_cache = w->no_cache, .each = each, .arg = want};
    seen = 0;
    llm_rig_open(&rig, &conf, 1);
    const int rc = llama_generate(rig.m, &c, ids, PROMPT, 1000, &all, &err);
    ok(rc == 0 && all == PROMPT + MORE && seen == MORE,
       "%s %s, %s: %d ids as transformers has them%s", model, adapter, w->name,
       seen, err.msg);
    llm_rig_close(&rig);
    free(prompt);
    free(greedy);
}

enum { TURN = 7, KEEPS = 11, TALK = 40 };

/* The second turn of a conversation, greedy in fp64: its ids behind the first
 * `same` tokens of the first turn and TURN others. in  kept  of the first
 * turn's tokens that are not computed again; -1: all are. Returns how many ids.
 */
static int32_t second_turn(const struct llama_conf *conf, int32_t same,
                           int32_t kept, int32_t *ids)
{
    struct error err = ERROR_INIT;
    struct llm_rig rig;
    int32_t n = 0, left = 0;
    const struct llama_choice c = {.kept = &left};
    const struct llama_choice plain = {.n_ends = 0};
    for (int i = 0; i < TURN; i++)
        ids[i] = 3 + 5 * i;
    llm_rig_open(&rig, conf, 1);
    must(llama_generate(rig.m, &c, ids, TURN, KEEPS, &n, &err), &err);
    is_int(left, KEEPS - 1, "the last id of an answer has no keys yet");
    for (int i = 0; i < TURN; i++)
        ids[same + i] = 11 + 3 * i;
    left = kept;
    must(llama_generate(rig.m, kept < 0 ? &plain : &c, ids, same + TURN, TALK,
                        &n, &err),
         &err);
    ok(kept < 0 || left == TALK - 1, "%d have keys", left);
    llm_rig_close(&rig);
    return n;
}

static void test_kept(const char *model, int32_t same)
{
    char of[96], dir[4096];
    int32_t want[TALK] = {0}, got[TALK] = {0};
    struct llama_conf conf = {.dt = DT_F64,
                              .is_full = true,
                              .batch = 1,
                              .batch_eval = 1,
                              .row_tokens = TALK,
                              .generates = true};
    (void)snprintf(of, sizeof(of), "tests/data/llama-%s", model);
    conf.dir = golden_path(of, dir);
    const int32_t n = second_turn(&conf, same, -1, want);
    ok(second_turn(&conf, same, same, got) == n &&
           memcmp(want, got, (size_t)n * sizeof(*got)) == 0,
       "%s: %d tokens with the keys of %d that were there are as without them",
       model, n, same);
}

static void test_kept_refused(void)
{
    struct error err = ERROR_INIT;
    char dir[4096];
    struct llm_rig rig;
    int32_t ids[8] = {1, 17}, n = 0, left = 2;
    const struct llama_choice c = {.kept = &left};
    const struct llama_conf conf = {
        .dt = DT_F32,
        .is_full = true,
        .batch = 1,
        .batch_eval = 1,
        .row_tokens = 8,
        .generates = true,
        .dir = golden_path("tests/data/llama-tied", dir)};
    llm_rig_open(&rig, &conf, 1);
    ok(llama_generate(rig.m, &c, ids, 2, 8, &n, &err) < 0 &&
           err.code == ERR_INVAL,
       "a prompt whose tokens all have keys: %s", err.msg);
    llm_rig_close(&rig);
}

/* A pack may be longer than the model's positions, an answer may not. */
static void test_positions(void)
{
    enum { MOST = 140, POSITIONS = 128 };
    struct error err = ERROR_INIT;
    char dir[4096];
    struct llm_rig rig;
    int32_t ids[MOST] = {1, 17}, all = 0;
    (void)golden_path("tests/data/llama-biases", dir);
    const struct llama_conf conf = {.dt = DT_F32,
                                    .is_full = true,
                                    .batch = 1,
                                    .batch_eval = 1,
                                    .row_tokens = MOST,
                                    .generates = true,
                                    .dir = dir};
    const struct llama_choice c = {.n_ends = 0};
    llm_rig_open(&rig, &conf, 1);
    const int rc = llama_generate(rig.m, &c, ids, 2, MOST, &all, &err);
    ok(rc == 0 && all == POSITIONS, "%d tokens of %d positions: %s", all,
       POSITIONS, err.msg);
    llm_rig_close(&rig);
}

/* Shares of 20000 draws from logits log(1), log(2), log(3), log(4). */
static void test_draw(double temperature, int32_t top_k, double top_p,
                      const double want[4])
{
    enum { DRAWS = 20000 };
    struct error err = ERROR_INIT;
    struct token_choice c;
    int count[4] = {0};
    must(token_choice_init(&c, 4, temperature, top_k, top_p, 7, &err), &err);
    for (int i = 0; i < DRAWS; i++) {
        for (int k = 0; k < 4; k++)
            c.logits[k] = log(k + 1);
        count[token_choice_next(&c)]++;
    }
    token_choice_clear(&c);
    double worst = 0;
    for (int k = 0; k < 4; k++)
        worst = fmax(worst, fabs((double)count[k] / DRAWS - want[k]));
    /* Five standard deviations of a share. */
    ok(worst < 5 * 0.5 / sqrt(DRAWS),
       "temperature %g, top_k %d, top_p %g: %d %d %d %d", temperature, top_k,
       top_p, count[0], count[1], count[2], count[3]);
}

static void test_choice(void)
{
    struct error err = ERROR_INIT;
    struct token_choice c;
    test_draw(0, 0, 0, (const double[]){0, 0, 0, 1});
    test_draw(1, 0, 0, (const double[]){0.1, 0.2, 0.3, 0.4});
    test_draw(0.5, 0, 1, (const double[]){1 / 30., 4 / 30., 9 / 30., 16 / 30.});
    test_draw(1, 2, 0, (const double[]){0, 0, 3 / 7., 4 / 7.});
    test_draw(1, 0, 0.75, (const double[]){0, 2 / 9., 3 / 9., 4 / 9.});
    test_draw(1, 3, 0.5, (const double[]){0, 0, 3 / 7., 4 / 7.});
    test_draw(1, 9, 0.01, (const double[]){0, 0, 0, 1});
    ok(token_choice_init(&c, 4, -1, 0, 0, 1, &err) < 0 &&
           err.code == ERR_INVAL &&
           token_choice_init(&c, 4, 1, 0, 1.5, 1, &err) < 0 &&
           token_choice_init(&c, 4, NAN, 0, 0, 1, &err) < 0,
       "what is out of range is refused: %s", err.msg);
}

static void ends(const struct model_dir *d, const char *generation,
                 const char *config, const char *want)
{
    struct error err = ERROR_INIT;
    struct llama_ends e = {.n = 0};
    char is[80] = "", path[512];
    (void)unlink(model_dir_file(d, "generation_config.json", path));
    if (generation != NULL)
        model_dir_text(d, "generation_config.json", generation);
    model_dir_text(d, "config.json", config);
    if (llama_ends_read(NULL, d->path, 100, &e, &err) < 0) {
        ok(strstr(err.msg, want) != NULL && err.code == ERR_INVAL,
           "refused: %s", err.msg);
        return;
    }
    for (int32_t i = 0; i < e.n; i++)
        (void)snprintf(is + strlen(is), 8, "%d ", e.id[i]);
    ok(strcmp(is, want) == 0, "ends: '%s' of '%s'", is, want);
}

/* Those of an adapter, if its directory has the file, before the base's. */
static void ends_of_adapter(const struct model_dir *d)
{
    struct model_dir adapter = {""};
    struct error err = ERROR_INIT;
    struct llama_ends e = {.n = 0};
    model_dir_init(&adapter);
    model_dir_text(d, "generation_config.json", "{\"eos_token_id\": 5}");
    ok(llama_ends_read(adapter.path, d->path, 100, &e, &err) == 0 && e.n == 1 &&
           e.id[0] == 5,
       "an adapter without the file has the base's: %s", err.msg);
    model_dir_text(&adapter, "generation_config.json",
                   "{\"eos_token_id\": [7, 9]}");
    ok(llama_ends_read(adapter.path, d->path, 100, &e, &err) == 0 && e.n == 2 &&
           e.id[1] == 9,
       "one with it has its own: %s", err.msg);
    model_dir_clear(&adapter);
}

static void test_ends(void)
{
    struct model_dir d = {""};
    model_dir_init(&d);
    ends(&d, "{\"eos_token_id\": [7, 9]}", "{\"eos_token_id\": 2}", "7 9 ");
    ends(&d, "{\"eos_token_id\": null}", "{\"eos_token_id\": [2, 3]}", "2 3 ");
    ends(&d, "{}", "{\"eos_token_id\": 4}", "4 ");
    ends(&d, NULL, "{\"eos_token_id\": 5}", "5 ");
    ends_of_adapter(&d);
    ends(&d, NULL, "{}", "");
    ends(&d, "{\"eos_token_id\": 100}", "{}", "integers in 0..99");
    ends(&d, "{\"eos_token_id\": \"2\"}", "{}", "generation_config.json");
    ends(&d, "{", "{}", "line 1");
    model_dir_clear(&d);
    struct llama_ends e = {.n = 0};
    for (int32_t id = -1; id < 2 * LLAMA_ENDS_MAX; id++)
        llama_ends_add(&e, id / 2);
    ok(e.n == LLAMA_ENDS_MAX && e.id[0] == 0 && e.id[1] == 1 && e.id[2] == 2,
       "an end is added once, as far as there is room");
}

int main(void)
{
    struct golden g;
    golden_open(&g, "tests/golden/greedy.txt");
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        test_golden(&g, "tied", "-", &ways[i]);
        test_golden(&g, "tied", "adapter", &ways[i]);
        test_golden(&g, "untied", "-", &ways[i]);
        test_golden(&g, "untied", "adapter", &ways[i]);
    }
    golden_close(&g);
    golden_open(&g, "tests/golden/archs.txt");
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
        for (int k = 0; k < 2; k++) {
            test_golden(&g, archs[i], "-", &ways[k]);
            test_golden(&g, archs[i], "adapter", &ways[k]);
        }
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
        test_kept(archs[i], KEEPS - 1);
    test_kept("tied", KEEPS - 1);
    test_kept("tied", 3);
    test_kept_refused();
    test_positions();
    test_choice();
    test_ends();
    golden_close(&g);
    return tap_done();
}
