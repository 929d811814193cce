/* size_choice.c - why a job has its number of GPUs, in words. */
#include "scheduler/ctld/request/size_choice.h"

#include <math.h>

#include "tests/tap.h"

static struct goodput_row row(uint64_t job, int32_t gpus)
{
    return (struct goodput_row){.job = job,
                                .nodes = 1,
                                .per_node = gpus,
                                .rate = {.nodes = 1,
                                         .per_node = gpus,
                                         .per_s = gpus,
                                         .hoped_per_s = gpus,
                                         .basis = RATE_MEASURED},
                                .efficiency = 1,
                                .gain = 1,
                                .turn_s = NAN,
                                .idle_turn_s = NAN};
}

static void says(const struct size_table *t, const char *want, const char *what)
{
    struct buf text = BUF_INIT;

    is_int(size_table_say(t, 7, &text, NULL), 0, what);
    is_str(buf_str(&text), want, what);
    buf_clear(&text);
}

int main(void)
{
    struct goodput_row rows[] = {row(6, 1), row(7, 1), row(7, 2), row(7, 4)};
    struct size_table t = {.rows = rows, .n = 4, .price = NAN};

    rows[0].is_now = rows[0].is_chosen = true;
    rows[1].is_now = rows[1].is_chosen = true;
    says(&t, "1 GPU, the most that pays for it; 1.00 measured efficiency at 1",
         "no larger size");
    rows[2].is_next = true;
    says(&t,
         "1 GPU, not 2: the last 1 would add 100 % to this job and add, as its "
         "start, 100 % to job 6; 1.00 measured efficiency at 1, 1.00 measured "
         "at 2",
         "others have them");
    rows[2].is_next = false;
    rows[3].is_refused = true;
    rows[3].turn_s = 1.7e9 + 1800;
    rows[3].idle_turn_s = 1.7e9 + 40;
    says(&t,
         "1 GPU, not 4: it was resized as often as it may be within an hour "
         "(scheduler.goodput.max_resizes_per_hour); it may grow onto GPUs that "
         "no job waits for at 2023-11-14T22:14:00.000Z, onto others at "
         "2023-11-14T22:43:20.000Z; 1.00 measured efficiency at 1, 1.00 "
         "measured at 4",
         "its resizes of the hour");
    rows[3].is_refused = false;
    rows[1].is_now = rows[1].is_chosen = false;
    rows[1].is_late = rows[2].is_late = true;
    says(
        &t,
        "a GPU would be worth 1 to it, on 4; it starts when GPUs are free that "
        "are worth less to others; on fewer than 4 it would not end within its "
        "time limit",
        "sizes that are too small");
    rows[3].is_chosen = true;
    says(&t,
         "4 GPUs, the most that pays for it; 1.00 measured efficiency at 4; on "
         "fewer than 4 it would not end within its time limit",
         "the first of those that are not");
    rows[3].is_chosen = false;
    rows[1].is_now = rows[1].is_chosen = true;
    says(&t,
         "1 GPU, the most that pays for it; 1.00 measured efficiency at 1; on "
         "fewer than 4 it would not end within its time limit",
         "it has one of them");
    t.n = 1;
    says(&t, "", "a job without sizes");
    json_t *list = size_table_json(&t, 0);
    is_int((long long)json_array_size(list), 1, "as JSON");
    ok(json_is_null(json_object_get(json_array_get(list, 0), "turn")),
       "  a turn is of a refused size alone");
    json_decref(list);
    return tap_done();
}
