/* latest_values.c - the newest value of each metric: of the last rows, and of
 * rows without an iteration, which come first. */
#include "scheduler/ctld/request/latest_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static void take(struct latest_values *l, int64_t attempt, int64_t iteration,
                 int64_t rank, const char *name, double value)
{
    const struct store_cell cells[] = {
        {.name = "attempt", .kind = CELL_INT, .i = attempt},
        {.name = "rank", .kind = CELL_INT, .i = rank},
        {.name = "iteration",
         .kind = iteration < 0 ? CELL_NULL : CELL_INT,
         .i = iteration},
        {.name = "name", .kind = CELL_TEXT, .s = name},
        {.name = "value", .kind = CELL_REAL, .r = value},
    };
    latest_values_take(l, cells, sizeof(cells) / sizeof(cells[0]));
}

static int add(void *arg, const struct store_cell *cells, size_t n,
               struct error *err)
{
    char *text = arg;
    const size_t len = strlen(text);
    (void)err;
    (void)snprintf(text + len, 400 - len, "%s=%g ",
                   store_cell(cells, n, "name")->s,
                   store_cell(cells, n, "value")->r);
    return 0;
}

static int count(void *arg, const struct store_cell *cells, size_t n,
                 struct error *err)
{
    int *ret = arg;
    (void)cells;
    (void)n;
    (void)err;
    ++*ret;
    return 0;
}

static void shows(const struct latest_values *l, const char *want,
                  const char *what)
{
    struct error err = ERROR_INIT;
    char text[400] = "";
    is_int(latest_values_each(l, add, text, &err), 0, what);
    is_str(text, want, what);
}

int main(void)
{
    struct latest_values *l = latest_values_create();
    if (l == NULL)
        return 1;
    take(l, 1, 9, 0, "acc", 1);
    take(l, 2, 3, 0, "acc", 2);
    take(l, 2, 3, 1, "acc", 20);
    take(l, 2, 3, 0, "lr", 3);
    take(l, 2, 4, 1, "acc", 4);
    shows(l, "acc=4 lr=3 ", "the newest attempt and iteration");
    take(l, 2, 5, 0, "acc", 5);
    take(l, 2, 5, 1, "acc", 50);
    shows(l, "acc=5 lr=3 ", "of one iteration the lowest rank");
    latest_values_early(l);
    take(l, 2, -1, 0, "test", 6);
    take(l, 2, -1, 1, "test", 60);
    take(l, 2, -1, 0, "acc", 7);
    take(l, 2, 1, 0, "warm", 8);
    shows(l, "acc=5 lr=3 test=6 ",
          "without an iteration, for a name that has no value");
    ok(latest_values_has(l, "acc") && !latest_values_has(l, "loss"),
       "which names there are");
    latest_values_reset(l);
    shows(l, "", "another job has none of them");
    take(l, 2, 3, 1, "acc", 20);
    take(l, 2, 3, 1, "lr", 3);
    take(l, 2, 4, 0, "acc", 4);
    ok(latest_values_has(l, "acc") && !latest_values_has(l, "lr"),
       "the iteration of the first row may have begun before it");
    latest_values_early(l);
    for (int i = 0; i < 300; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        take(l, 2, -1, 0, name, i);
    }
    int n = 0;
    struct error err = ERROR_INIT;
    is_int(latest_values_each(l, count, &n, &err), 0, "many names");
    is_int(n, 256, "so many are kept");
    free(l);
    return tap_done();
}
