/* store_rows.c - what every store with metrics promises
 * (db/metric_store.h) of its rows and of the views, run against each. */
#include "tests/contract/store_fixture.h"

/* ---- metrics ------------------------------------------------------------- */

static void test_rows(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    size_t added = 99;
    struct metric_row rows[] = {iteration(0, 1, 1.5),    epoch(1, 0.75),
                                value(0, 1, "grad", 2),  iteration(0, 1, 9),
                                value(0, -1, "f1", NAN), epoch(2, NAN)};

    rows[5].epoch.tokens_per_s = 51200;

    fx_begin(fx);
    ok(fx->s->metrics->rows(fx->s, 5, 1, rows, 6, &added, &err) == 0,
       "stores rows");
    is_int((long long)added, 5, "counts the new ones");
    rows[0].iteration.t_iter = 77;
    rows[1].epoch.eval_accuracy = 77;
    rows[2].value.value = 77;
    ok(fx->s->metrics->rows(fx->s, 5, 1, rows, 6, &added, &err) == 0,
       "the same rows again are fine");
    is_int((long long)added, 0, "and none of them is new");
    ok(fx->s->metrics->rows(fx->s, 5, 2, rows, 1, NULL, &err) == 0,
       "another attempt, without a count");
    ok(fx->s->metrics->rows(fx->s, 5, 2, NULL, 0, &added, &err) == 0,
       "no rows");
    ok(fx->s->metrics->sync_rows(fx->s, &err) == 0, "syncs");
    ok(fx->s->metrics->sync_rows(fx->s, &err) == 0, "syncs nothing");
    fx_reopen(fx);
    is_str(view(fx->s, VIEW_ITERATION),
           "5 1 0 1 1 1763712002r 1.5r 0.25r - 0.5r - 0r 0.125r - 0.1r 64 "
           "- -\n"
           "5 2 0 1 1 1763712002r 77r 0.25r - 0.5r - 0r 0.125r - 0.1r 64 "
           "- -\n",
           "v_iteration: the first row stays; not reported is NULL");
    is_str(view(fx->s, VIEW_EPOCH),
           "5 1 1 9.5r 0.5r - 0.75r 1000r -\n"
           "5 1 2 9.5r 0.5r - - 1000r 51200r\n",
           "v_epoch: of images, and of text");
    is_str(view(fx->s, VIEW_METRIC),
           "5 1 0 - 'f1' -\n"
           "5 1 0 1 'grad' 2r\n",
           "v_metric");
    is_str(view(fx->s, VIEW_PROFILE), "", "v_profile is empty");
    fx_end(fx);
}

static void test_profile(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    size_t added = 99;
    struct metric_row rows[] = {
        profile(1, 2, "cudaLaunchKernel", 7), profile(0, 2, "memory", -1),
        profile(0, 1, "cudaLaunchKernel", 5), profile(0, 2, "memory", 9)};

    fx_begin(fx);
    ok(fx->s->metrics->rows(fx->s, 5, 1, rows, 4, &added, &err) == 0,
       "stores what a profiler found");
    is_int((long long)added, 3, "each metric of an epoch and a rank once");
    fx_reopen(fx);
    is_str(view(fx->s, VIEW_PROFILE),
           "5 1 0 1 'cudaLaunchKernel' 5 0.5r - 0.25r\n"
           "5 1 0 2 'memory' - - 4096 1r\n"
           "5 1 1 2 'cudaLaunchKernel' 7 0.5r - 0.25r\n",
           "v_profile: by epoch, then rank");
    is_str(queried(fx->s,
                   (struct store_query){
                       .view = VIEW_PROFILE, .job = 5, .rank = 0, .after = 1}),
           "5 1 0 2 'memory' - - 4096 1r\n", "of one rank, after an epoch");
    fx_end(fx);
}

static void fill_filters(struct store *s)
{
    struct error err = ERROR_INIT;

    for (uint64_t j = 1; j <= 2; j++)
        for (int32_t k = 1; k <= 2; k++)
            for (int32_t rank = 1; rank >= 0; rank--) {
                struct metric_row rows[4];
                for (int i = 0; i < 4; i++)
                    rows[i] = value(rank, 4 - i, "x", (double)j);
                if (s->metrics->rows(s, j, k, rows, 4, NULL, &err) < 0)
                    tap_diag("%s", err.msg);
            }
}

static void test_filters(struct fixture *fx)
{
    struct store_query q = {.view = VIEW_METRIC, .rank = -1, .job = 2};

    fx_begin(fx);
    fill_filters(fx->s);
    q.attempt = 1;
    q.after = 2;
    is_str(queried(fx->s, q),
           "2 1 0 3 'x' 2r\n2 1 1 3 'x' 2r\n2 1 0 4 'x' 2r\n2 1 1 4 'x' 2r\n",
           "job, attempt and after: by iteration, then rank");
    q.limit = 3;
    is_str(queried(fx->s, q),
           "2 1 0 3 'x' 2r\n2 1 1 3 'x' 2r\n2 1 0 4 'x' 2r\n", "limit");
    q.last = 1;
    is_str(queried(fx->s, q),
           "2 1 1 3 'x' 2r\n2 1 0 4 'x' 2r\n2 1 1 4 'x' 2r\n",
           "the last rows, in order");
    q = (struct store_query){
        .view = VIEW_METRIC, .job = 1, .rank = 1, .after = 3};
    is_str(queried(fx->s, q), "1 1 1 4 'x' 1r\n1 2 1 4 'x' 1r\n",
           "rank, of all attempts");
    q = (struct store_query){.view = VIEW_METRIC, .rank = -1, .after = 3};
    is_str(queried(fx->s, q),
           "1 1 0 4 'x' 1r\n1 1 1 4 'x' 1r\n1 2 0 4 'x' 1r\n1 2 1 4 'x' 1r\n"
           "2 1 0 4 'x' 2r\n2 1 1 4 'x' 2r\n2 2 0 4 'x' 2r\n2 2 1 4 'x' 2r\n",
           "after, of all jobs");
    q = (struct store_query){.view = VIEW_METRIC, .rank = -1, .last = 1};
    q.limit = 100;
    ok(strlen(queried(fx->s, q)) == 32 * strlen("1 1 0 4 'x' 1r\n"),
       "fewer rows than the limit: all of them");
    q = (struct store_query){.view = VIEW_METRIC, .rank = 1, .job = 1};
    q.after = 3;
    q.columns = 1U << 1 | 1U << 3 | 1U << 5;
    is_str(queried(fx->s, q), "1 4 1r\n2 4 1r\n", "some columns");
    q.columns = 1U << 6;
    struct error err = ERROR_INIT;
    is_int(fx->s->metrics->query(fx->s, &q, print_row, NULL, &err), -1,
           "a column that there is not");
    is_int(err.code, ERR_INVAL, "is invalid");
    q = (struct store_query){.view = VIEW_METRIC, .rank = -1, .job = 3};
    is_str(queried(fx->s, q), "", "no such job: no rows, no error");
    fx_end(fx);
}

static void test_event_filters(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    fx_begin(fx);
    for (uint64_t i = 1; i <= 6; i++)
        (void)append_one(fx->s, 1 + i % 2, EV_SUBMIT, &err);
    is_str(
        queried(fx->s,
                (struct store_query){.view = VIEW_EVENT, .job = 1, .after = 2}),
        "4 1 0 'submit' 1763712000r 1000 -\n"
        "6 1 0 'submit' 1763712000r 1000 -\n",
        "v_event of one job after a seq; rank has no say");
    is_str(queried(
               fx->s,
               (struct store_query){.view = VIEW_EVENT, .limit = 1, .last = 1}),
           "6 1 0 'submit' 1763712000r 1000 -\n", "the last event");
    struct store_query bad = {.view = VIEW_N};
    is_int(fx->s->metrics->query(fx->s, &bad, print_row, NULL, &err), -1,
           "no such view");
    is_int(err.code, ERR_INVAL, "is invalid");
    bad = (struct store_query){.view = VIEW_JOB, .limit = -1};
    is_int(fx->s->metrics->query(fx->s, &bad, print_row, NULL, &err), -1,
           "a negative limit");
    is_int(err.code, ERR_INVAL, "is invalid too");
    fx_end(fx);
}

static int count_names(void *arg, const struct store_cell *cells, size_t n,
                       struct error *err)
{
    const char *const want[] = {"job",       "attempt", "rank",
                                "iteration", "name",    "value"};
    (void)err;
    for (size_t i = 0; i < n && i < 6; i++)
        *(size_t *)arg += strcmp(cells[i].name, want[i]) == 0;
    return 0;
}

static void test_names(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_query q = {.view = VIEW_METRIC, .rank = -1, .limit = 1};
    size_t right = 0;

    fx_begin(fx);
    fill_filters(fx->s);
    ok(fx->s->metrics->query(fx->s, &q, count_names, &right, &err) == 0,
       "queries");
    is_int((long long)right, 6, "cells carry their columns' names");
    fx_end(fx);
}

/* A second run at a size, one iteration past its warm-up; and a size of which
 * no more is known than one. */
static void test_scaling_runs(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_attempt at[2] = {attempt(1, 2), attempt(9, 1)};
    struct store_batch b = {.attempts = at, .n_attempts = 2};

    at[0].class = "a";
    at[0].gpus = 1;
    at[0].gpu_type = "h100";
    at[1].class = "c";
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores a second attempt");
    for (int64_t i = 1; i <= 4; i++) {
        struct metric_row row = iteration(0, i, 1);
        (void)fx->s->metrics->rows(fx->s, 1, 2, &row, 1, NULL, &err);
        (void)fx->s->metrics->rows(fx->s, 9, 1, &row, 1, NULL, &err);
    }
    is_str(
        queried(
            fx->s,
            (struct store_query){.view = VIEW_SCALING, .job = 1, .limit = 1}),
        "'a' 1 1 1r 64r 1r 1r 3 'measured' 0.25r 2 4.340277778r - 'h100' 1\n",
        "v_scaling: two runs of a size");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_SCALING, .job = 9}),
           "'c' 2 1 1r 64r 2r 1r 1 'measured' - 1 8.680555556r - - 1\n",
           "v_scaling: one iteration has no deviation");
}

/* Sizes of class a that did not run, beside those of test_scaling(). */
static void test_guesses(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    const struct store_guess first[] = {{4, 1, "assumed", 1, 1, 5, 0.2},
                                        {1, 1, "fitted", 2, 1, 9, 9},
                                        {3, 1, "fitted", 7, 1, 2, 2}};
    const struct store_guess then = {8, 2, "fitted", 2, 1, 3, 0.5};
    const struct store_query of_a = {
        .view = VIEW_SCALING, .job = 2, .after = 2};

    ok(fx->s->metrics->guesses(fx->s, "a", "h100", first, 3, &err) == 0 &&
           fx->s->metrics->guesses(fx->s, "b", NULL, &then, 1, &err) == 0 &&
           fx->s->metrics->guesses(fx->s, "nothing", "h100", first, 3, &err) ==
               0,
       "stores guesses: %s", err.msg);
    is_str(queried(fx->s, of_a),
           "'a' 4 1 0.2r 320r 5r 1.25r 0 'assumed' - 0 3.472222222r - "
           "'h100' 1\n",
           "v_scaling: a guess, times its base; none of a measured size, and "
           "none whose base did not run");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_SCALING, .job = 3}),
           "'b' 2 1 1.25r - - - 2 'measured' 0r 1 - 800r - 1\n"
           "'b' 8 2 0.625r - - - 0 'fitted' - 0 - 2400r - 1\n",
           "v_scaling: a guess without a type and without samples");
    ok(fx->s->metrics->guesses(fx->s, "a", "h100", &then, 1, &err) == 0,
       "other guesses of the class");
    is_str(queried(fx->s, of_a),
           "'a' 8 2 0.625r 307.2r 4.8r 0.6r 0 'fitted' - 0 7.233796296r - "
           "'h100' 1\n",
           "v_scaling: they take the place of the first");
    ok(fx->s->metrics->guesses(fx->s, "a", "h100", NULL, 0, &err) == 0 &&
           fx->s->metrics->guesses(fx->s, "b", NULL, NULL, 0, &err) == 0,
       "no guesses");
    is_str(queried(fx->s, of_a), "", "v_scaling: none are left");
}

/* Guesses about a type that has only measurements without one. */
static void test_untyped_guess(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    const struct store_guess g[] = {{2, 1, "assumed", 2, 1, 1, 1},
                                    {4, 1, "assumed", 2, 1, 2, 0.5}};

    ok(fx->s->metrics->guesses(fx->s, "b", "a100", g, 2, &err) == 0,
       "guesses of a type");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_SCALING,
                                               .job = 3,
                                               .after = 2}),
           "'b' 4 1 0.625r - - - 0 'assumed' - 0 - 1600r 'a100' 1\n",
           "v_scaling: a measured size without a type is its base");
    ok(fx->s->metrics->guesses(fx->s, "b", "a100", NULL, 0, &err) == 0, "gone");
}

/* Sizes of one class with as many GPUs, stored in the wrong order. */
static void test_scaling_keys(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_attempt at[4] = {attempt(1, 1), attempt(2, 1), attempt(3, 1),
                                  attempt(4, 1)};
    struct store_batch b = {.attempts = at, .n_attempts = 4};

    at[0].nodes = 2;
    at[1].gpu_type = "h100";
    at[3].gpu_type = "a100";
    for (int i = 0; i < 4; i++)
        at[i].class = "a";
    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores attempts");
    for (uint64_t j = 1; j <= 4; j++)
        for (int64_t i = 1; i <= 4; i++) {
            struct metric_row row = iteration(0, i, (double)j);
            (void)fx->s->metrics->rows(fx->s, j, 1, &row, 1, NULL, &err);
        }
    is_str(view(fx->s, VIEW_SCALING),
           "'a' 2 1 3r 21.33333333r 2r 1r 1 'measured' - 1 26.04166667r - - 1\n"
           "'a' 2 1 4r 16r 2r 1r 1 'measured' - 1 34.72222222r - 'a100' 1\n"
           "'a' 2 1 2r 32r 2r 1r 1 'measured' - 1 17.36111111r - 'h100' 1\n"
           "'a' 2 2 1r 64r 6r 3r 1 'measured' - 1 8.680555556r - - 1\n",
           "v_scaling: by GPUs, nodes and type, each size once");
    fx_end(fx);
}

/* Two classes of a program, one of them on two sizes, and one of another. */
static void test_programs(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_attempt at[4] = {attempt(21, 1), attempt(21, 2),
                                  attempt(22, 1), attempt(23, 1)};
    struct store_batch b = {.attempts = at, .n_attempts = 4};
    const char *got;

    for (int i = 0; i < 4; i++) {
        at[i].class = i < 2   ? "command/p-1"
                      : i < 3 ? "command/p-2"
                              : "command/q";
        at[i].program = i < 3 ? "program/p" : "program/q";
        at[i].gpus = i == 1 ? 2 : 1;
    }
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores attempts of programs");
    for (int k = 0; k < 4; k++)
        for (int64_t i = 1; i <= 5; i++) {
            struct metric_row row = iteration(0, i, k < 2 ? 1 : 3);
            (void)fx->s->metrics->rows(fx->s, at[k].job, at[k].attempt, &row, 1,
                                       NULL, &err);
        }
    got = queried(fx->s, (struct store_query){.view = VIEW_SCALING, .job = 22});
    is_str(got,
           "'command/p-2' 1 1 3r 21.33333333r 1r 1r 2 'measured' 0r 1 "
           "13.02083333r - - 1\n"
           "'program/p' 1 1 2r 32r 1r 1r 4 'measured' 1.154700538r 2 "
           "8.680555556r - - 2\n"
           "'program/p' 2 1 1r 64r 2r 1r 2 'measured' 0r 1 8.680555556r - - "
           "2\n",
           "v_scaling: a program is all of its classes");
    got = queried(fx->s, (struct store_query){.view = VIEW_SCALING, .job = 23});
    is_str(got,
           "'command/q' 1 1 3r 21.33333333r 1r 1r 2 'measured' 0r 1 "
           "13.02083333r - - 1\n"
           "'program/q' 1 1 3r 21.33333333r 1r 1r 2 'measured' 0r 1 "
           "13.02083333r - - 1\n",
           "v_scaling: also of a single one");
}

/* Two classes, three sizes; rank 1 is the slow one. */
static void test_scaling(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_attempt at[3] = {attempt(1, 1), attempt(2, 1), attempt(3, 1)};
    struct store_batch b = {.attempts = at, .n_attempts = 3};

    at[0].class = at[1].class = "a";
    at[0].gpus = 1;
    at[0].gpu_type = at[1].gpu_type = "h100";
    at[2].class = "b";
    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores attempts");
    for (uint64_t j = 1; j <= 4; j++)
        for (int64_t i = 101; i <= 105; i++) {
            bool wide = j > 1, warm = i > 103;
            double off = j > 1 ? 0 : i == 105 ? 0.25 : -0.25;
            struct metric_row rows[2] = {iteration(0, i, warm ? 1 + off : 50),
                                         iteration(1, i, warm ? 1.25 : 50)};
            if (j == 3)
                rows[0].iteration.samples = rows[1].iteration.samples = -1;
            if (j == 3 && i != 104)
                rows[0].iteration.tokens = rows[1].iteration.tokens = 500;
            (void)fx->s->metrics->rows(fx->s, j, 1, rows, wide ? 2 : 1, NULL,
                                       &err);
        }
    is_str(view(fx->s, VIEW_SCALING),
           "'a' 1 1 1r 64r 1r 1r 2 'measured' 0.3535533906r 1 4.340277778r - "
           "'h100' 1\n"
           "'a' 2 1 1.25r 102.4r 1.6r 0.8r 2 'measured' 0r 1 5.425347222r - "
           "'h100' 1\n"
           "'b' 2 1 1.25r - - - 2 'measured' 0r 1 - 800r - 1\n",
           "v_scaling: the slowest rank, without the warm-up");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_SCALING,
                                               .after = 1,
                                               .limit = 1,
                                               .last = 1}),
           "'b' 2 1 1.25r - - - 2 'measured' 0r 1 - 800r - 1\n",
           "v_scaling: the last row");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_SCALING, .job = 2}),
           "'a' 1 1 1r 64r 1r 1r 2 'measured' 0.3535533906r 1 4.340277778r - "
           "'h100' 1\n"
           "'a' 2 1 1.25r 102.4r 1.6r 0.8r 2 'measured' 0r 1 5.425347222r - "
           "'h100' 1\n",
           "v_scaling: the class of a job, at all its sizes");
    test_programs(fx);
    test_guesses(fx);
    test_untyped_guess(fx);
    test_scaling_runs(fx);
    fx_end(fx);
}

static void run(struct fixture *fx)
{
    test_rows(fx);
    test_profile(fx);
    test_filters(fx);
    test_event_filters(fx);
    test_names(fx);
    test_scaling(fx);
    test_scaling_keys(fx);
}

int main(void)
{
    return each_metric_store(run);
}
