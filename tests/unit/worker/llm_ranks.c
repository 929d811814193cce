/* llm_ranks.c - adapters whose linears differ: which expressions are read and
 * what they match, the rank and alpha of each linear, and what is refused.
 *
 * tests/golden/patterns.py made the adapters of tests/data with PEFT; what
 * they compute is in llm_golden.c and llm_merge.c. */
#include "worker/llm/files/adapter_ranks.h"

#include <math.h>

#include "tests/tap.h"
#include "tests/unit/worker/llm_files.h"
#include "tests/unit/worker/llm_rig.h"
#include "worker/llm/files/name_pattern.h"
#include "worker/llm/llama_shape.h"

/* Each row is what Python's re.match(r"(.*\.)?(KEY)$", name) says. */
static void test_patterns(void)
{
    static const char q3[] = "model.layers.3.self_attn.q_proj";
    static const struct {
        const char *key, *name;
        bool matches;
    } rows[] = {
        {"q_proj", q3, true},
        {"proj", q3, false},
        {"_proj", q3, false},
        {"attn.q_proj", q3, false},
        {"self_attn.q_proj", q3, true},
        {"3.self_attn.q_proj", q3, true},
        {"model.layers.3.self_attn.q_proj", q3, true},
        {"self_attn_q_proj", q3, false},
        {"self.attn.q.proj", q3, true},
        {"k_proj", q3, false},
        {"", q3, false},
        {"q_proj", "q_proj", true},
        {"lm_head", "lm_head", true},
        {"head", "lm_head", false},
        {"x.model.layers.3.self_attn.q_proj", q3, false},
        {".*", q3, true},
        {"layers\\.3\\..*", q3, true},
        {"layers\\.\\d+\\.self_attn\\.[qk]_proj", q3, true},
        {"layers\\.[\\d]\\.self_attn\\.[^qk]_proj", q3, false},
        {"(q|k)_proj", q3, true},
        {"q_proj|k_proj", q3, true},
        {"k_proj|v_proj", q3, false},
        {"(?:q|v)_proj", q3, true},
        {"\\w+_proj", q3, true},
        {"\\w+", q3, true},
        {".*?\\.q_proj", q3, true},
        {"layers.(1|2).*", q3, false},
        {"^model.layers.3.self_attn.q_proj", q3, true},
        {"^layers.3.self_attn.q_proj", q3, false},
        {"q_proj$", q3, true},
        {"[k-q]_proj", q3, true},
        {"q?q_proj", q3, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct name_pattern p;
        struct error err = ERROR_INIT;
        if (!ok(name_pattern_open(rows[i].key, &p, &err) == 0, "'%s': %s",
                rows[i].key, err.msg))
            continue;
        ok(name_pattern_matches(&p, rows[i].name) == rows[i].matches,
           "'%s' %s %s", rows[i].key, rows[i].matches ? "is" : "is not",
           rows[i].name);
        name_pattern_close(&p);
    }
}

static void test_refused_patterns(void)
{
    static const char *const rows[][2] = {
        {"q{2}", "counts"},          {"(?=q)proj", "group"},
        {"(?P<x>q)", "group"},       {"(q)\\1", "escape"},
        {"\\bq", "escape"},          {"q**", "nothing to repeat"},
        {"*q", "nothing to repeat"}, {"(+q)", "nothing to repeat"},
        {"q\\", "backslash"},        {"[q", "brackets"},
        {"[[:alpha:]]", "brackets"}, {"(q", "open group"},
        {"q)", "open group"},
    };
    char longest[NAME_PATTERN_CAP + 1] = "";
    struct name_pattern p;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        ok(name_pattern_open(rows[i][0], &p, &err) < 0 &&
               err.code == ERR_INVAL && strstr(err.msg, rows[i][1]) != NULL,
           "'%s' is refused: %s", rows[i][0], err.msg);
    }
    struct error err = ERROR_INIT;
    memset(longest, 'q', NAME_PATTERN_CAP);
    ok(name_pattern_open(longest, &p, &err) < 0 &&
           strstr(err.msg, "256 characters") != NULL,
       "too long: %s", err.msg);
}

/* An adapter_config.json of r 4, alpha 8, with more keys. */
static int parse(const char *targets, const char *more, int32_t layers,
                 struct adapter_ranks *ret, struct error *err)
{
    static const struct safetensors none = {.n = 0};
    struct adapter_config c;
    char text[1024];
    (void)snprintf(text, sizeof(text),
                   "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, "
                   "\"target_modules\": %s%s}",
                   targets, more);
    if (adapter_config_parse(text, strlen(text), &c, err) < 0)
        return -1;
    return adapter_ranks_parse(text, strlen(text), &c, layers, &none, ret, err);
}

/* The ranks of q, v and down of three layers, and of the output layer. */
static void ranks_are(const char *targets, const char *more,
                      const int32_t want[10])
{
    struct adapter_ranks r = {.layers = 77};
    struct error err = ERROR_INIT;
    bool is = true;
    if (!ok(parse(targets, more, 3, &r, &err) == 0, "%s%s: %s", targets, more,
            err.msg))
        return;
    for (int l = 0; l < 3 && r.layer != NULL; l++)
        is &= r.layer[l].rank[0] == want[3 * l] &&
              r.layer[l].rank[2] == want[3 * l + 1] &&
              r.layer[l].rank[6] == want[3 * l + 2];
    ok(r.layer != NULL && is && r.layer[3].rank[7] == want[9],
       "each has its rank");
    adapter_ranks_clear(&r);
}

static void test_ranks(void)
{
    static const char some[] = "[\"q_proj\", \"v_proj\", \"down_proj\"]";
    ranks_are(some, ", \"rank_pattern\": {\"v_proj\": 2}",
              (int32_t[]){4, 2, 4, 4, 2, 4, 4, 2, 4, 0});
    ranks_are(some,
              ", \"rank_pattern\": {\"layers.1.self_attn.v_proj\": 9, "
              "\"self_attn.*\": 3, \"v_proj\": 2}",
              (int32_t[]){3, 3, 4, 3, 9, 4, 3, 3, 4, 0});
    ranks_are(some, ", \"layers_to_transform\": 2",
              (int32_t[]){0, 0, 0, 0, 0, 0, 4, 4, 4, 0});
    ranks_are(some,
              ", \"layers_to_transform\": [0, 2, 40], \"layers_pattern\": "
              "[\"h\", \"layers\"]",
              (int32_t[]){4, 4, 4, 0, 0, 0, 4, 4, 4, 0});
    ranks_are("[\"lm_head\", \"q_proj\"]",
              ", \"layers_to_transform\": [1], \"rank_pattern\": "
              "{\"lm_head\": 7}",
              (int32_t[]){0, 0, 0, 4, 0, 0, 0, 0, 0, 7});
    ranks_are("[\"model.layers.0.mlp.down_proj\", \"1.self_attn.q_proj\"]", "",
              (int32_t[]){0, 0, 4, 4, 0, 0, 0, 0, 0, 0});
    ranks_are("[\"model.layers.0.mlp.down_proj\", \"q_proj\"]",
              ", \"layers_to_transform\": [1]",
              (int32_t[]){0, 0, 4, 4, 0, 0, 0, 0, 0, 0});
}

static void test_alphas(void)
{
    struct adapter_ranks r = {.layers = 0};
    struct error err = ERROR_INIT;
    const char more[] = ", \"use_rslora\": true, \"rank_pattern\": "
                        "{\"v_proj\": 9}, \"alpha_pattern\": "
                        "{\"0.self_attn.q_proj\": 2.5}";
    if (ok(parse("[\"q_proj\", \"v_proj\"]", more, 2, &r, &err) == 0, "%s",
           err.msg))
        ok(r.layer[0].alpha[0] == 2.5 * 2 && r.layer[1].alpha[0] == 16 &&
               fabs(r.layer[0].alpha[2] - 24) < 1e-12,
           "rslora: alpha times the root of the linear's own rank");
    adapter_ranks_clear(&r);
    ok(parse("[\"q_proj\"]", ", \"rank_pattern\": {\"v_proj\": 9}", 2, &r,
             &err) == 0 &&
           r.layer == NULL,
       "a pattern of no linear changes nothing");
}

static void refused(const char *targets, const char *more, const char *w1,
                    const char *w2)
{
    struct adapter_ranks r = {.layers = 77};
    struct error err = ERROR_INIT;
    ok(parse(targets, more, 3, &r, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, w1) != NULL && strstr(err.msg, w2) != NULL &&
           r.layers == 77,
       "%s%s is refused: %s", targets, more, err.msg);
}

static void test_refused(void)
{
    static const char q[] = "[\"q_proj\"]";
    refused(q, ", \"rank_pattern\": {\"q_proj\": 0}", "rank_pattern",
            "'q_proj' must be an integer");
    refused(q, ", \"rank_pattern\": {\"q_proj\": 2.5}", "rank_pattern",
            "integer");
    refused(q, ", \"rank_pattern\": [4]", "rank_pattern", "object");
    refused(q, ", \"alpha_pattern\": {\"q_proj\": \"4\"}", "alpha_pattern",
            "number");
    refused(q, ", \"alpha_pattern\": {\"q{2}\": 4}", "alpha_pattern", "counts");
    refused(q, ", \"layers_to_transform\": 3", "no linear", "3 layers");
    refused(q, ", \"layers_to_transform\": [-1]", "layers_to_transform",
            "from 0 on");
    refused("[\"q_proj\", \"model.lm_head\"]", "", "target_modules",
            "ends in 'lm_head'");
    refused(q, ", \"layers_to_transform\": \"all\"", "layers_to_transform",
            "integer");
    refused(q, ", \"layers_pattern\": \"layers\"", "layers_pattern",
            "layers_to_transform is not");
    refused(q, ", \"layers_to_transform\": 1, \"layers_pattern\": \"a|b\"",
            "layers_pattern", "|");
    refused(q, ", \"layers_to_transform\": 1, \"layers_pattern\": \"h\"",
            "no linear", "3 layers");
    refused("\".*q_proj\"", "", "no linear", "3 layers");
    refused("[\"layers.7.self_attn.q_proj\"]", "", "no linear", "3 layers");
}

/* Tensors of the shape, in order: each begins where the last one ends. */
static int32_t gaps(const struct llama_shape *s)
{
    int32_t n = 0;
    int64_t at = 0;
    for (int32_t i = 0; i < llama_adapter_count(s); i++) {
        struct llama_tensor t;
        llama_adapter(s, i, &t);
        n += t.at != at;
        at += t.n;
    }
    return n + (at != s->adapters);
}

/* What is saved is read again as it was, and has PEFT's keys. */
static void test_saved(const char *name)
{
    static const char tensors[] = "adapter_model.safetensors";
    struct error err = ERROR_INIT;
    struct llm_rig g;
    struct model_dir d;
    struct adapter_config c;
    struct adapter_ranks again = {.layers = 0};
    char dir[4096], adapter[4200], file[4300], path[512];
    (void)llm_path("tests/data/llama-mistral", dir);
    (void)snprintf(adapter, sizeof(adapter), "%s/%s", dir, name);
    struct llama_conf conf = {.dt = DT_F32,
                              .batch = 1,
                              .batch_eval = 1,
                              .row_tokens = 8,
                              .dir = dir,
                              .adapter = adapter};
    must(llama_config_read(dir, &conf.shape, &err), &err);
    must(llama_conf_adapter(&conf, &err), &err);
    struct llama_shape s;
    must(llama_shape_init(&s, &conf.shape, false, conf.rank, conf.alpha,
                          conf.targets, &err),
         &err);
    llama_shape_set_ranks(&s, &conf.ranks);
    ok(gaps(&s) == 0, "%s: no gap between its tensors", name);
    llm_rig_open(&g, &conf, 1);
    model_dir_init(&d);
    must(g.m->ops->save(g.m, d.path, model_params(g.m), DT_F32, &err), &err);
    must(adapter_read(d.path, conf.shape.layers, &c, &again, &err), &err);
    const size_t n = ((size_t)again.layers + 1) * sizeof(*again.layer);
    ok(c.rank == conf.rank && c.alpha == conf.alpha &&
           c.targets == conf.targets && again.layer != NULL &&
           memcmp(again.layer, conf.ranks.layer, n) == 0,
       "what is saved has the same ranks");
    (void)snprintf(file, sizeof(file), "%s/%s", adapter, tensors);
    struct safetensors x, y;
    must(safetensors_open(file, 1 << 20, &x, &err), &err);
    must(safetensors_open(model_dir_file(&d, tensors, path), 1 << 20, &y, &err),
         &err);
    int same = 0;
    for (size_t i = 0; i < x.n; i++) {
        const struct st_tensor *t = safetensors_find(&y, x.tensors[i].name);
        same += t != NULL && t->bytes == x.tensors[i].bytes &&
                memcmp(t->data, x.tensors[i].data, t->bytes) == 0;
    }
    ok(x.n == y.n && same == (int)x.n, "and the same tensors");
    safetensors_close(&x);
    safetensors_close(&y);
    adapter_ranks_clear(&again);
    llama_conf_clear(&conf);
    llm_rig_close(&g);
    model_dir_clear(&d);
}

int main(void)
{
    test_patterns();
    test_refused_patterns();
    test_ranks();
    test_alphas();
    test_refused();
    test_saved("adapter-patterns");
    test_saved("adapter-layers");
    test_saved("adapter-named");
    return tap_done();
}
