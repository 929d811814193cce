/* nomem.c - every allocation of jobs/ fails once: the caller is told, what
 * it owns is as before, and (under ASan) nothing is lost.
 *
 * The program is linked with --wrap, so that malloc() and its kin of our own
 * objects come here; those inside the libraries do not.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf.h"
#include "jobs/spec/spec.h"
#include "jobs/wire/json_struct.h"
#include "jobs/wire/metric_rows.h"
#include "tests/tap.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

static int left = -1; /* allocations that still succeed; -1: all */
static bool hit;

static bool refuse(void)
{
    if (left < 0)
        return false;
    if (left-- > 0)
        return false;
    left = -1;
    hit = true;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return refuse() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return refuse() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
    return refuse() ? NULL : __real_strdup(s);
}

/* ---- what is tried ------------------------------------------------------- */

static const char good[] =
    "version: 1\nkind: command\ncommand: [sh, -c, 'echo $A']\n"
    "labels: {a: b, c: d}\nenv: {A: x, HF_NAME: y}\nx-note: [1, {a: b}]\n"
    "checkpoint: {grace: 1m}\nenv_passthrough: [PATH]\n"
    "secrets: [B_KEY]\n";
static const char bad[] =
    "kind: cw\ncomand: [ls]\nlabels: {a: b, a: c, ? [x] : y}\n"
    "train: {output_dir: ~/x, epochs: 0}\n? {a: b}\n: [c]\n<<: &a {x: *a}\n";
static const struct spec_set sets[] = {
    {"train.output_dir", "out", NULL},
    {"labels.x", "[1", NULL},
    {"resources.gpus", "{min: 1, max: 2}", NULL},
    {"train.seed", NULL, NULL}};
static const struct spec_options opt = {.file = "dir/a.yaml",
                                        .home = "/home/ann",
                                        .draw_seed = true,
                                        .take_env = true};

static int parse_spec(const char *text, const struct spec_options *o,
                      enum err_code want, struct error *err)
{
    struct job_spec s = {.version = 77};
    struct spec_report r;
    struct buf out = BUF_INIT;
    int rc = spec_parse(text, strlen(text), o, &s, &r, err);
    if (rc < 0 && s.version != 77)
        tap_diag("the result is touched");
    if (rc == 0) {
        rc = spec_dump(&s, &out, err);
        spec_clear(&s);
    } else if (err->code == want) { /* what it should be: go on */
        rc = diagnostics_print(&r, "a.yaml", text, strlen(text), &out, err);
        if (rc == 0)
            rc = diagnostics_json(&r, "a.yaml", &out, err);
    }
    diagnostics_clear(&r);
    buf_clear(&out);
    return rc;
}

static int try_good(struct error *err)
{
    return parse_spec(good, &opt, ERR_NONE, err);
}

static int try_bad(struct error *err)
{
    return parse_spec(bad, &opt, ERR_INVAL, err);
}

/* Other defaults, and keys of torchtune. */
static int try_llm(struct error *err)
{
    static const char text[] =
        "version: 1\nkind: llm\nmethod: lora\ntrain:\n  dtype: fp32\n"
        "  compile: no\n"
        "  checkpointer: {checkpoint_dir: /m, checkpoint_files: [a, b]}\n"
        "  model: {lora_attn_modules: [q_proj]}\n"
        "  dataset: {_component_: torchtune.datasets.alpaca_dataset, path: d}\n"
        "  dataset_val: {path: e}\n  sample: {prompts: [x]}\n";
    return parse_spec(text, &opt, ERR_NONE, err);
}

static int try_sets(struct error *err)
{
    struct spec_options o = opt;
    o.sets = sets;
    o.n_sets = sizeof(sets) / sizeof(sets[0]);
    return parse_spec("kind: cv\ndataset: {source: mnist, path: ~/x}\n", &o,
                      ERR_INVAL, err);
}

/* Over another, which has maps that both have. */
static int try_base(struct error *err)
{
    static const char over[] = "name: over\nlabels: {c: e}\ncommand: [ls]\n";
    struct spec_report r = {.n = 0};
    struct spec_base *base = NULL;
    struct spec_options o = opt;
    struct buf out = BUF_INIT;
    int rc = spec_base_create(good, strlen(good), "base", &base, &r, err);
    o.base = base;
    if (rc == 0)
        rc = spec_show(over, strlen(over), &o, &out, err);
    if (rc == 0 && !strstr(buf_str(&out), "# template base:4, file:2"))
        rc = error_set(err, ERR_INTERNAL, "%s", buf_str(&out));
    buf_clear(&out);
    diagnostics_clear(&r);
    spec_base_destroy(base);
    return rc;
}

static int try_show(struct error *err)
{
    struct buf out = BUF_INIT;
    int rc = spec_show(good, strlen(good), &opt, &out, err);
    buf_clear(&out);
    return rc;
}

static int try_conf(struct error *err)
{
    static const char text[] = "controller: {state_dir: x}\nx-a: [b]\n";
    struct conf c;
    struct spec_report r;
    struct buf out = BUF_INIT;
    int rc = conf_parse(text, strlen(text), "a/mgpu.yaml", &c, &r, err);
    if (rc == 0) {
        rc = conf_print(&c, &out, err);
        conf_clear(&c);
    }
    diagnostics_clear(&r);
    buf_clear(&out);
    return rc;
}

static int try_metrics(struct error *err)
{
    struct metric_row row = {.kind = METRIC_VALUE,
                             .value = {.iteration = 1, .name = "a"}};
    struct buf out = BUF_INIT;
    int rc = metric_row_encode(&row, &out, err);
    if (rc < 0 && out.len > 0)
        tap_diag("half a line");
    buf_clear(&out);
    return rc;
}

/* jansson goes on when a key could not be written: the text would have a hole.
 */
static int try_dump(struct error *err)
{
    json_t *o = json_object();
    for (int i = 0; o && i < 60; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key %d", i);
        (void)json_object_set_new(o, key, json_integer(i));
    }
    struct buf out = BUF_INIT;
    char *want = json_dumps(o, JSON_COMPACT);
    int rc = want ? json_struct_dump(o, &out, err) : -1;
    if (rc == 0 && strcmp(buf_str(&out), want) != 0)
        rc = error_set(err, ERR_INTERNAL, "another text: %s", buf_str(&out));
    if (rc < 0 && out.len > 0)
        rc = error_set(err, ERR_INTERNAL, "half a text: %s", buf_str(&out));
    free(want);
    json_decref(o);
    buf_clear(&out);
    return rc;
}

static int try_expand(struct error *err)
{
    static const char text[] =
        "version: 1\nkind: command\ncommand: [a]\n"
        "env_passthrough: [HOME]\n"
        "sweep: {max_parallel: 1, grid: {env.A: [1, 2]}, "
        "list: [{labels.x: y}]}\n";
    const struct spec_options take = {.file = "/x/y.yaml", .take_env = true};
    struct spec_report report = {.n = 0};
    struct spec_jobs jobs = {.n = 0};
    int rc = spec_expand(text, strlen(text), &take, &jobs, &report, err);
    spec_jobs_clear(&jobs);
    diagnostics_clear(&report);
    return rc;
}

static void sweep(const char *name, int (*scenario)(struct error *err))
{
    int n = 0, wrong = 0;
    for (;; n++) {
        struct error err = ERROR_INIT;
        left = n;
        hit = false;
        int rc = scenario(&err);
        left = -1;
        if (!hit)
            break; /* it ran to its end: each one has failed once */
        if (rc != -1 || err.code != ERR_NOMEM) {
            tap_diag("%s: allocation %d: %d, %s", name, n, rc, err.msg);
            wrong++;
        }
    }
    ok(n > 0, "%s: %d allocations", name, n);
    is_int(wrong, 0, "each fails cleanly");
}

int main(void)
{
    sweep("a good specification", try_good);
    sweep("a bad specification", try_bad);
    sweep("a language model", try_llm);
    sweep("--set", try_sets);
    sweep("--show", try_show);
    sweep("--template with a file", try_base);
    sweep("a sweep", try_expand);
    sweep("mgpu.yaml", try_conf);
    sweep("metrics", try_metrics);
    sweep("a JSON text", try_dump);
    return tap_done();
}
