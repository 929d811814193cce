/* gres.c - Slurm's words for GPUs. */
#include "slurm/helper/gres.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

/* "h100:4[0,1] ..", to compare with. */
static const char *all_of(const char *text)
{
    static char out[512];
    struct gres_gpu g;
    size_t n = 0;
    out[0] = '\0';
    while (gres_next(&text, &g)) {
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s:%d[", g.type, g.n);
        for (int i = 0; g.has_indexes && i < GRES_GPUS_MAX; i++)
            if (g.at[i])
                n += (size_t)snprintf(out + n, sizeof(out) - n, "%d,", i);
        n += (size_t)snprintf(out + n, sizeof(out) - n, "] ");
    }
    return out;
}

static void test_read(void)
{
    static const char *const all[][2] = {
        {"gpu:4", ":4[] "},
        {"gpu:h100:4", "h100:4[] "},
        {"gpu:h100:4(S:0-1)", "h100:4[] "},
        {"gres:gpu:h100:2", "h100:2[] "},
        {"gpu:h100:2(IDX:0-1)", "h100:2[0,1,] "},
        {"gpu:h100:3(IDX:0,2,5-5)", "h100:3[0,2,5,] "},
        {"gpu:h100:0(IDX:N/A)", "h100:0[] "},
        {"gpu:2(IDX:0,3)", ":2[0,3,] "},
        {"nic:1,gpu:a100:1(IDX:3),gpu:h100:2(IDX:0-1)",
         "a100:1[3,] h100:2[0,1,] "},
        {"mps:100,gpu:1", ":1[] "},
        {"(null)", ""},
        {"", ""},
        {"gpu", ""},
        {"gpu:", ""},
        {"gpu:h100:", ""},
        {"gpu:x:y", ""},
        {"gpumem:5", ""},
        {"gpu:2(IDX:5-2)", ":2[] "},
        {"gpu:2(IDX:1-", ":2[] "},
        {"gpu:99999999999(IDX:0-99999999999)", NULL},
        {"gpu:1)(,gpu:2", ""},
        {"a),gpu:2", ":2[] "}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i][1])
            is_str(all_of(all[i][0]), all[i][1], all[i][0]);
    struct gres_gpu g;
    const char *p = "gpu:99999999999(IDX:0-99999999999)";
    ok(gres_next(&p, &g) && g.n == GRES_GPUS_MAX && g.at[GRES_GPUS_MAX - 1],
       "numbers are bounded");
    p = "gpu:a0123456789012345678901234567890123456789:1";
    ok(gres_next(&p, &g) && strlen(g.type) == GRES_TYPE_CAP - 1,
       "a type is cut");
    p = NULL;
    ok(!gres_next(&p, &g), "NULL is nothing");
}

/* "h100:2/4 a100:0/2": used, total */
static const char *kinds_of(const char *total, const char *used)
{
    static char out[1024];
    struct gres_kind kinds[GRES_KINDS_MAX];
    size_t n = gres_kinds(total, used, kinds), len = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s:%d/%d",
                                i > 0 ? " " : "", kinds[i].type, kinds[i].used,
                                kinds[i].total);
    return out;
}

static void test_kinds(void)
{
    static const char *const all[][3] = {
        {"gpu:h100:4", "gpu:h100:2(IDX:0-1)", "h100:2/4"},
        {"gpu:4", "gpu:1(IDX:3)", "gpu:1/4"},
        {"gpu:h100:4", "gpu:1(IDX:3)", "h100:1/4"},
        {"gpu:h100:4", NULL, "h100:0/4"},
        {"gpu:h100:2,gpu:a100:2", "gpu:h100:0(IDX:N/A),gpu:a100:1(IDX:2)",
         "h100:0/2 a100:1/2"},
        {"gpu:a100:2,gpu:h100:6", "gpu:a100:2(IDX:0,1),gpu:h100:1(IDX:2)",
         "a100:2/2 h100:1/6"},
        {"gpu:h100:4(S:0-1),nic:1,gpu:a100:2,gpu:3", "gpu:a100:1,gpu:2",
         "h100:0/4 a100:1/2 gpu:2/3"},
        {"gpu:h100:2(S:0),gpu:h100:2(S:1)", "gpu:h100:3", "h100:3/4"},
        {"gpu:h100:4,gpu:a100:0", "gpu:h100:1", "h100:1/4"},
        {"nic:1", "nic:1", ":0/0"},
        {"gpu:h100:0", NULL, ":0/0"},
        {NULL, NULL, ":0/0"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        is_str(kinds_of(all[i][0], all[i][1]), all[i][2],
               all[i][0] ? all[i][0] : "NULL");
}

static void test_many_kinds(void)
{
    struct gres_kind kinds[GRES_KINDS_MAX];
    char text[40 * 16];
    size_t n = 0;
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%sgpu:t%d:1",
                              i > 0 ? "," : "", i);
    is_int((int64_t)gres_kinds(text, text, kinds), GRES_KINDS_MAX,
           "no more than there is room for");
    is_str(kinds[GRES_KINDS_MAX - 1].type, "t15", "the first of them");
    is_int(kinds[GRES_KINDS_MAX - 1].used, 1, "each with what is used of it");
}

static void test_indexes(void)
{
    static const char both[] = "gpu:a100:2(IDX:4-5),gpu:h100:2(IDX:0,2)";
    unsigned char at[GRES_GPUS_MAX] = {0};
    is_int(gres_indexes(both, "h100", at), 2, "of one type");
    ok(at[0] && !at[1] && at[2] && !at[4], "its indexes");
    is_int(gres_indexes(both, NULL, at), 4, "of all");
    ok(at[0] && at[2] && at[4] && at[5] && !at[3],
       "also when a later type has lower ones");
    is_int(gres_indexes(both, "t4", at), 0, "of none");
    is_int(gres_indexes(NULL, NULL, at), 0, "nothing");
}

int main(void)
{
    test_read();
    test_kinds();
    test_many_kinds();
    test_indexes();
    return tap_done();
}
