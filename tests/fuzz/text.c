/* text.c - libFuzzer: small languages, one by the first byte: the papers' csv,
 * rules, durations and sizes, Slurm's words for GPUs, places, dependencies,
 * columns, which jobs.
 *
 * What is read and can be written is read as the same again.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/dependency.h"
#include "jobs/spec/retry_rule.h"
#include "jobs/text/scalar.h"
#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/tools/export/paper_results.h"
#include "slurm/helper/gres.h"
#include "slurm/place_text.h"

enum { SLOTS = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void paper(const char *text)
{
    struct paper p;
    struct error err = ERROR_INIT;
    if (paper_parse("fuzz", text, &p, &err) < 0) {
        if (err.code != ERR_INVAL && err.code != ERR_NOMEM)
            abort();
        return;
    }
    if (p.n_rows > PAPER_ROWS || p.n_keys > PAPER_KEYS || p.n_keys == 0)
        abort();
    for (size_t i = 0; i < p.n_rows; i++)
        for (size_t k = 0; k < p.n_keys; k++)
            if (strlen(p.rows[i].keys[k]) > strlen(text))
                abort();
    paper_clear(&p);
}

static void rule(const char *text)
{
    struct rule r;
    struct rule_end end = {.exit_code = 1, .reason = "out of memory"};
    if (rule_parse(text, &r, NULL) == 0 &&
        (r.lo > r.hi || r.action == RULE_NONE))
        abort();
    (void)rules_say(text, &end);
}

static void scalar(const char *text)
{
    char hint[SCALAR_HINT_CAP], shown[SCALAR_CAP];
    double s, again_s, v;
    int64_t bytes, again, i;
    bool yes;
    if (scalar_duration(text, &s, hint, NULL) == 0 && isfinite(s) &&
        (scalar_duration(scalar_show_duration(shown, s), &again_s, hint, NULL) <
             0 ||
         again_s != s))
        abort();
    if (scalar_size(text, &bytes, hint, NULL) == 0 &&
        (scalar_size(scalar_show_size(shown, bytes), &again, hint, NULL) < 0 ||
         again != bytes))
        abort();
    if (scalar_float(text, &v) == 0 && isfinite(v) &&
        (scalar_float(scalar_show_float(shown, v), &again_s) < 0 ||
         again_s != v))
        abort();
    (void)scalar_int(text, &i);
    (void)scalar_bool(text, &yes);
}

static void gres(const char *text)
{
    static struct gres_gpu gpu;
    static struct gres_kind kinds[GRES_KINDS_MAX];
    static unsigned char at[GRES_GPUS_MAX];
    size_t n = 0;
    for (const char *p = text; gres_next(&p, &gpu); n++)
        if (gpu.n < 0 || n > strlen(text) || p < text ||
            p > text + strlen(text))
            abort();
    n = gres_kinds(text, text, kinds);
    if (n < 1 || n > GRES_KINDS_MAX || gres_indexes(text, NULL, at) < 0)
        abort();
}

static void place(const char *text)
{
    static struct place_text t;
    static char shown[sizeof(t.text)];
    unsigned char used[SLOTS] = {0}, again[SLOTS] = {0};
    place_text_cut(text, shown, 8);
    if (place_text_parse(text, used, SLOTS, NULL) < 0)
        return;
    place_text_begin(&t);
    place_text_node(&t, "n1");
    for (int32_t i = 0; i < SLOTS; i++)
        if (used[i])
            place_text_index(&t, i);
    place_text_end(&t, shown, sizeof(shown));
    if (place_text_parse(shown, again, SLOTS, NULL) < 0 ||
        memcmp(used, again, sizeof(used)) != 0)
        abort();
}

static void depend(const char *text)
{
    struct depend d[DEPEND_MAX], again[DEPEND_MAX];
    char shown[DEPEND_TEXT_CAP];
    size_t n = 0;
    if (depend_parse(text, d, &n, NULL) < 0 && n != 0)
        abort();
    for (size_t i = 0; i < n; i++) {
        size_t n_again = 0;
        if (depend_parse(depend_show(&d[i], shown), again, &n_again, NULL) <
                0 ||
            n_again != 1 || again[0].job != d[i].job ||
            again[0].task != d[i].task || again[0].kind != d[i].kind)
            abort();
    }
}

static void columns(const char *text)
{
    struct columns c;
    struct buf members = BUF_INIT;
    json_t *jobs =
        json_pack("[{s:s,s:i},{s:n},{}]", "name", "b", "gpus", 2, "name");
    json_t *sorted = NULL;
    if (columns_parse(text, &c, NULL) == 0 &&
        (c.n < 1 || c.n > COLUMNS_MAX ||
         columns_members(&c, text, &members, NULL) < 0))
        abort();
    if (columns_sort(jobs, text, &sorted, NULL) == 0 &&
        json_array_size(sorted) != 3)
        abort();
    json_decref(sorted);
    json_decref(jobs);
    buf_clear(&members);
}

static void choose(const char *text)
{
    struct filter f = {.name = text, .node = text};
    struct buf b = BUF_INIT;
    unsigned long long id = 0;
    double s = 0;
    (void)job_query_states("state", text, &f.states, NULL);
    (void)job_query_option(&f, FILTER_LABEL, text, NULL);
    if (job_query_time("since", text, &s, NULL) == 0) {
        f.since = text;
        if (!isfinite(s))
            abort();
    }
    if (filter_query(&f, &b, NULL) < 0 ||
        strspn(buf_str(&b), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                            "wxyz0123456789-_.,&=%") != b.len)
        abort();
    buf_clear(&b);
    if (options_job_id(text, &id, NULL) == 0 && id == 0)
        abort();
    if (options_job_word(text, NULL) == 0 && strpbrk(text, "/?# %"))
        abort();
    (void)options_duration("grace", text, &s, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const languages[])(const char *) = {
        paper, rule, scalar, gres, place, depend, columns, choose};
    char *text = size > 0 ? malloc(size) : NULL;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    languages[data[0] % (sizeof(languages) / sizeof(languages[0]))](text);
    free(text);
    return 0;
}
