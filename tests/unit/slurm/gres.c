/* gres.c - Slurm's words for GPUs. */
#include "slurm/gres.h"

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

static void test_main(void)
{
    static const struct {
        const char *total, *used, *type;
        int n, taken;
    } all[] = {{"gpu:h100:4", "gpu:h100:2(IDX:0-1)", "h100", 4, 2},
               {"gpu:4", "gpu:1(IDX:3)", "gpu", 4, 1},
               {"gpu:h100:4", "gpu:1(IDX:3)", "h100", 4, 1},
               {"gpu:h100:4", NULL, "h100", 4, 0},
               {"gpu:a100:2,gpu:h100:6",
                "gpu:a100:2(IDX:0,1),gpu:h100:1(IDX:2)", "h100", 6, 1},
               {"gpu:h100:2(S:0),gpu:h100:2(S:1)", "gpu:h100:3", "h100", 4, 3},
               {"nic:1", "nic:1", "", 0, 0},
               {NULL, NULL, "", 0, 0}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char type[GRES_TYPE_CAP];
        int32_t n;
        int32_t used;
        gres_main(all[i].total, all[i].used, type, &n, &used);
        is_str(type, all[i].type, all[i].total ? all[i].total : "NULL");
        is_int(n, all[i].n, "all of them");
        is_int(used, all[i].taken, "used");
    }
}

static void test_others(void)
{
    char text[32];
    gres_others("gpu:h100:4(S:0-1),nic:1,gpu:a100:2,gpu:3", "h100", text,
                sizeof(text));
    is_str(text, "2 a100, 3 gpu", "types beside the main one");
    gres_others("gpu:h100:4", "h100", text, sizeof(text));
    is_str(text, "", "none");
    gres_others(NULL, "", text, sizeof(text));
    is_str(text, "", "no GPU at all");
    gres_others("gpu:aaaaaaaaaaaa:1,gpu:bbbbbbbbbbbbbbbb:2,gpu:c:3", "h100",
                text, sizeof(text));
    is_int((int64_t)strlen(text), (int64_t)sizeof(text) - 1, "too many: cut");
}

int main(void)
{
    test_others();
    test_read();
    test_main();
    return tap_done();
}
