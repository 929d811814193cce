/* gpu_select.c - whose GPU is whose, with made-up numbers of them. */
#include "worker/process/gpu_select.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static void test_index(void)
{
    static const struct {
        int32_t visible, local_rank, want; /* -1: refused */
        const char *what;
    } rows[] = {
        {1, 0, 0, "one rank, one GPU"},
        {4, 0, 0, "the first of four"},
        {4, 3, 3, "the last of four"},
        {1, 3, 0, "each rank sees its own alone"},
        {4, 4, -1, "more ranks than GPUs"},
        {2, 7, -1, "many more"},
        {0, 0, -1, "none at all"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        int32_t got = -1;
        int rc = gpu_index(rows[i].visible, rows[i].local_rank, &got, &err);
        ok(rc == (rows[i].want < 0 ? -1 : 0) && got == rows[i].want, "%s",
           rows[i].what);
        if (rc < 0)
            ok(err.code == ERR_UNAVAIL &&
                   strstr(err.msg, "CUDA_VISIBLE_DEVICES is '4,5'") != NULL,
               "and says what to look at: %s", err.msg);
    }
}

static void test_own(void)
{
    static const struct {
        const char *list;
        int32_t local_rank;
        const char *want; /* NULL: refused */
    } rows[] = {
        {"0,1,2,3", 0, "0"}, {"0,1,2,3", 3, "3"},
        {"2,3", 1, "3"},     {"GPU-aaaa,GPU-bbbb", 1, "GPU-bbbb"},
        {"5", 0, "5"},       {"5", 2, "5"},
        {"", 0, ""},         {"", 1, ""},
        {NULL, 0, "0"},      {NULL, 6, "6"},
        {"0,1", 2, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        char got[64] = "untouched";
        int rc =
            gpu_own(rows[i].list, rows[i].local_rank, got, sizeof(got), &err);
        is_int(rc, rows[i].want != NULL ? 0 : -1, "the verdict");
        is_str(got, rows[i].want != NULL ? rows[i].want : "untouched",
               rows[i].list != NULL ? rows[i].list : "(not set)");
    }
    struct error err = ERROR_INIT;
    char small[4];
    ok(gpu_own("0,123", 1, small, sizeof(small), &err) == 0 &&
           strcmp(small, "123") == 0,
       "a name that just fits");
    ok(gpu_own("0,1234", 1, small, sizeof(small), &err) < 0 &&
           err.code == ERR_LIMIT,
       "one that does not: %s", err.msg);
}

int main(void)
{
    (void)setenv("CUDA_VISIBLE_DEVICES", "4,5", 1);
    test_index();
    test_own();
    return tap_done();
}
