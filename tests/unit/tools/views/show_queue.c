/* show_queue.c - a queue that is shown from its text is the one that is shown
 * from a tree of it. */
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/base/rng.h"
#include "scheduler/tools/views/show.h"
#include "tests/tap.h"

static const char head[] =
    "{\"schema\":\"mgpu.queue/1\",\"generated\":\"2026-11-22T12:00:00Z\","
    "\"cluster\":\"a \\\"jobs\\\":[ b\",\"policy\":\"fifo\",\"slots_total\":4,"
    "\"slots_free\":1,\"running\":1,\"queued\":1,\"allocator_state\":{\"name\":"
    "\"local\",\"is_ok\":true},\"jobs\":[";

/* Those of a sweep are in a row. */
static const char *const rows[] = {
    "{\"id\":1,\"display_id\":\"1\",\"name\":\"n\xc3\xa4me\",\"user\":\"anna\","
    "\"state\":\"RUNNING\",\"gpus_min\":1,\"gpus_max\":4,\"gpus\":3,"
    "\"iteration\":1200,\"iterations_total\":8622,\"t_iter_s\":0.5,"
    "\"loss\":0.874,\"elapsed_s\":600,\"eta_s\":3711,\"place\":\"n1:0,1,2\"}",
    "{\"id\":2,\"display_id\":\"2\",\"name\":\"q\\\"uote\\u001b\",\"user\":"
    "\"kyr\",\"state\":\"FAILED\",\"gpus_min\":2,\"gpus_max\":2,\"gpus\":0,"
    "\"reason\":\"exit \\\\ 1\\n\",\"labels\":{\"k\":\"v\",\"l\":\"\\\"\"},"
    "\"iteration\":null,\"loss\":1e-05}",
    "{\"id\":3,\"display_id\":\"3_0\",\"sweep\":3,\"task\":0,\"name\":\"s\","
    "\"state\":\"COMPLETED\",\"gpus_min\":1,\"gpus_max\":1,\"gpus\":0,"
    "\"eval_loss\":0.11,\"eval_accuracy\":0.97}",
    "{\"id\":4,\"display_id\":\"3_1\",\"sweep\":3,\"task\":1,\"name\":\"s\","
    "\"state\":\"QUEUED\",\"gpus_min\":1,\"gpus_max\":2,\"gpus\":0}",
    "{\"id\":5,\"display_id\":\"3_2\",\"sweep\":3,\"task\":2,\"name\":\"s\","
    "\"state\":\"RUNNING\",\"gpus_min\":1,\"gpus_max\":2,\"gpus\":2}",
    "{\"id\":6,\"display_id\":\"3_3\",\"sweep\":3,\"task\":3,\"name\":\"s\","
    "\"state\":\"QUEUED\",\"gpus_min\":2,\"gpus_max\":2,\"gpus\":0}",
    "{\"id\":7,\"display_id\":\"3_4\",\"sweep\":3,\"task\":4,\"name\":\"s\","
    "\"state\":\"HELD\",\"gpus_min\":2,\"gpus_max\":2,\"gpus\":0}",
    "{\"id\":8,\"display_id\":\"8\",\"name\":\"w\",\"state\":\"QUEUED\","
    "\"gpus_min\":2,\"gpus_max\":2,\"gpus\":0,\"start_in_s\":120.0}",
    "{\"id\":9,\"display_id\":\"9_0\",\"sweep\":9,\"task\":0,\"name\":\"t\","
    "\"state\":\"HELD\",\"gpus_min\":2,\"gpus_max\":2,\"gpus\":0}",
    "{\"id\":10,\"display_id\":\"9_1\",\"sweep\":9,\"task\":1,\"name\":\"t\","
    "\"state\":\"HELD\",\"gpus_min\":2,\"gpus_max\":2,\"gpus\":0}",
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *const formats[] = {NULL,    "long",  "why",
                                      "times", "ended", "id,labels,state"};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* Those whose bits are set. own  the caller frees */
static char *list_of(uint32_t which)
{
    struct buf b = BUF_INIT;
    const char *comma = "";
    int rc = buf_addstr(&b, head, NULL);
    for (int i = 0; i < N_ROWS; i++)
        if (which >> i & 1u) {
            rc |= buf_addf(&b, NULL, "%s%s", comma, rows[i]);
            comma = ",";
        }
    rc |= buf_addstr(&b, "]}", NULL);
    return rc == 0 ? buf_detach(&b) : NULL;
}

/* own  the caller frees */
static char *shown(struct show_conf conf, const char *text, bool by_text,
                   bool *ret_is_shown)
{
    struct error err = ERROR_INIT;
    char *out = NULL;
    size_t len = 0;
    conf.out = open_memstream(&out, &len);
    json_t *o = by_text ? NULL : json_loads(text, 0, NULL);
    int rc =
        by_text ? show_queue_text(&conf, text, strlen(text), ret_is_shown, &err)
                : show_queue(&conf, o, &err);
    if (rc < 0)
        tap_diag("%s", err.msg);
    (void)fclose(conf.out);
    json_decref(o);
    return out;
}

static bool is_same(const struct show_conf *conf, const char *text)
{
    bool is_shown = false;
    char *one = shown(*conf, text, false, &is_shown);
    char *two = shown(*conf, text, true, &is_shown);
    bool is = is_shown && strcmp(one, two) == 0;
    if (!is)
        tap_diag("of %s\nby tree\n%sby text\n%s", text, one, two);
    free(one);
    free(two);
    return is;
}

static void test_same(void)
{
    struct rng r;
    rng_seed(&r, 3);
    for (int f = 0; f < N_FORMATS; f++) {
        int n_other = 0;
        for (int i = 0; i < 400 && n_other == 0; i++) {
            uint32_t bits = rng_u32(&r);
            struct show_conf conf = {
                .header = bits >> 20 & 1u,
                .expand = bits >> 21 & 1u,
                .style = {.columns = i % 3 ? 0 : 80, .colour = bits >> 22 & 1u},
                .format = formats[f]};
            char *text = list_of(i == 0 ? 0 : i == 1 ? UINT32_MAX : bits);
            n_other += !is_same(&conf, text);
            free(text);
        }
        is_int(n_other, 0, formats[f] ? formats[f] : "default");
    }
}

/* Of a sweep whose tasks wait, those are in a row that are the same. */
static void test_apart(void)
{
    static const char text[] =
        "{\"jobs\":["
        "{\"id\":3,\"display_id\":\"3_0\",\"sweep\":3,\"task\":0,\"state\":"
        "\"QUEUED\",\"priority\":0,\"attempt\":1,\"reason\":\"retry 1 of 2\"},"
        "{\"id\":4,\"display_id\":\"3_1\",\"sweep\":3,\"task\":1,\"state\":"
        "\"QUEUED\",\"priority\":0,\"attempt\":0,\"reason\":\"Reserved: x\"},"
        "{\"id\":5,\"display_id\":\"3_2\",\"sweep\":3,\"task\":2,\"state\":"
        "\"QUEUED\",\"priority\":0,\"attempt\":0,\"reason\":\"Reserved: y\"},"
        "{\"id\":6,\"display_id\":\"3_3\",\"sweep\":3,\"task\":3,\"state\":"
        "\"QUEUED\",\"priority\":7,\"attempt\":0,\"reason\":\"Reserved: z\"}]}";
    const struct show_conf conf = {.format = "id,priority,where"};
    bool is_shown = false;
    for (int by_text = 0; by_text < 2; by_text++) {
        char *out = shown(conf, text, by_text, &is_shown);
        is_str(out,
               "    3_0  0  retry 1 of 2\n3_[1-2]  0  2 Reserved\n"
               "    3_3  7  Reserved: z\n",
               "again, or of another priority: a row of its own");
        free(out);
    }
}

/* The reason of all of them, or of how many which is. */
static void test_reasons(void)
{
    static const struct {
        const char *reasons[5], *want;
    } cases[] = {
        {{"Reserved: x", "Reserved: x"}, "3_[0-1]  Reserved: x\n"},
        {{"WaitingForGpus: needs 2", "Priority: 1 ahead", "Priority: 2 ahead"},
         "3_[0-2]  2 Priority, 1 WaitingForGpus\n"},
        {{"WaitingForGpus: needs 2", "WaitingForGpus: needs 1"},
         "3_[0-1]  2 WaitingForGpus\n"},
        {{"Slurm(Priority)", "", "Slurm(Resources)", "requeued by root",
          "a: b"},
         "3_[0-4]  2 Requeued, 2 Slurm, 1 PendingEvaluation\n"},
        {{"", ""}, "3_[0-1]  -\n"},
        {{"X: only one"}, "3_0  X: only one\n"},
    };
    const struct show_conf conf = {.format = "id,reason"};
    bool is_shown = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf b = BUF_INIT;
        int rc = buf_addstr(&b, "{\"jobs\":[", NULL);
        for (int k = 0; k < 5 && cases[i].reasons[k]; k++)
            rc |= buf_addf(&b, NULL,
                           "%s{\"id\":%d,\"display_id\":\"3_%d\",\"sweep\":3,"
                           "\"task\":%d,\"state\":\"QUEUED\",\"reason\":"
                           "\"%s\"}",
                           k > 0 ? "," : "", 3 + k, k, k, cases[i].reasons[k]);
        rc |= buf_addstr(&b, "]}", NULL);
        char *out = rc == 0 ? shown(conf, buf_str(&b), true, &is_shown) : NULL;
        is_str(out, cases[i].want, cases[i].want);
        free(out);
        buf_clear(&b);
    }
}

/* More kinds than are counted: the largest of those that came first. */
static void test_many_reasons(void)
{
    struct buf b = BUF_INIT;
    const struct show_conf conf = {.format = "id,reason"};
    bool is_shown = false;
    int rc = buf_addstr(&b, "{\"jobs\":[", NULL);
    for (int k = 0; k < 26; k++)
        rc |= buf_addf(&b, NULL,
                       "%s{\"id\":%d,\"display_id\":\"3_%d\",\"sweep\":3,"
                       "\"task\":%d,\"state\":\"HELD\",\"reason\":\"%c: x\"}",
                       k > 0 ? "," : "", 3 + k, k, k, 'A' + k);
    rc |= buf_addstr(&b, "]}", NULL);
    char *out = rc == 0 ? shown(conf, buf_str(&b), true, &is_shown) : NULL;
    is_str(out, "3_[0-25]  1 A, 1 B, 1 C, 1 D, 1 E, 1 F, 1 G, 1 H, 18 others\n",
           "eight kinds, and the others");
    free(out);
    buf_clear(&b);
}

/* The daemon would not write it so: the JSON library is to say what it is. */
static void test_strange(void)
{
    static const char *const texts[] = {
        "",
        "{}",
        "[]",
        "{\"jobs\":{}}",
        "{\"jobs\":[{\"id\":1}",
        "{\"jobs\":[{\"id\":1}]",
        "{\"jobs\":[{\"id\":1},]}",
        "{\"jobs\":[{\"id\":1}{\"id\":1}]}",
        "{\"jobs\":[1]}",
        "{\"jobs\":[{\"id\":1}],\"more\":1}",
        "{\"jobs\":[{\"id\":1}] }",
        "{\"of\":{\"jobs\":[{\"id\":1}]}}",
        "{\"jobs\":[{\"id\":1}]}\n",
    };
    const struct show_conf conf = {.header = true};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        bool is_shown = true;
        char *out = shown(conf, texts[i], true, &is_shown);
        ok(!is_shown && out[0] == '\0', "left to the library: %s", texts[i]);
        free(out);
    }
}

int main(void)
{
    char *all = list_of(UINT32_MAX);
    bool is_shown = false;
    char *out =
        shown((struct show_conf){.format = "id,gpus"}, all, true, &is_shown);
    is_str(out,
           "      1     3\n      2     2\n    3_0     1\n3_[1,3]  1..2\n"
           "    3_2     2\n    3_4     2\n      8     2\n9_[0-1]     2\n",
           "tasks that wait share a row");
    free(out);
    free(all);
    test_same();
    test_apart();
    test_reasons();
    test_many_reasons();
    test_strange();
    return tap_done();
}
