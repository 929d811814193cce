/* state.c - the whole transition table, from the outside: every state with
 * every event. The want is written down once more here, by state, as a
 * reader of state.h would draw it; '=' stays, '.' is refused. */
#include "jobs/state.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

/* One letter per state. */
static const char letters[JOB_STATE_N + 1] = "nqhdusrkpCFXTN";

static const struct {
    const char *to; /* one letter per event, in the order of enum job_event */
    enum job_state from;
} rows[] = {
    /* The first letters of submit, hold, release, intent, unknown, ...
     *
     *SHRIUGCRSPRCLRFFKELPWTUSO
     *uoennrlutreaieiaixoraipap
     *blltkaanaepnmqnilpsirmdve */
    {"q........................", JOB_NEW},
    {".h.d.....=.X...F...=..=.r", JOB_QUEUED},
    {".=q......=.X...F...=..=..", JOB_HELD},
    {"....u=s..=.==q.FXTN=..=..", JOB_DISPATCHING},
    {".....=s..=.==q.FXTN=..=..", JOB_UNKNOWN},
    {".....=.rpk===qCFXTN=.===.", JOB_STARTING},
    {".....=..pk===qCFXTN=====.", JOB_RUNNING},
    {".....=...====qCFXTN=.===.", JOB_CHECKPOINTING},
    {".....=.r.k===qCFXTN=====.", JOB_STALLED},
    {".........................", JOB_COMPLETED},
    {".........................", JOB_FAILED},
    {".........................", JOB_CANCELLED},
    {".........................", JOB_TIMEOUT},
    {".........................", JOB_NODE_FAIL},
};

static void test_table(void)
{
    is_int(sizeof(rows) / sizeof(rows[0]), JOB_STATE_N, "a row per state");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char got[EV_N + 1] = "";
        int touched = 0, wrong_code = 0;
        for (int ev = 0; ev < EV_N; ev++) {
            enum job_state to = JOB_STATE_N;
            struct error err = ERROR_INIT;
            int rc =
                job_state_next(rows[i].from, (enum job_event)ev, &to, &err);
            touched += rc < 0 && to != JOB_STATE_N;
            wrong_code += rc < 0 && err.code != ERR_STATE;
            got[ev] = rc < 0 ? '.' : to == rows[i].from ? '=' : letters[to];
        }
        got[EV_N] = '\0';
        is_str(got, rows[i].to, job_state_name(rows[i].from));
        is_int(touched + wrong_code, 0, "refusals are ERR_STATE, no change");
    }
}

static void test_names(void)
{
    int bad = 0;
    for (int s = 0; s < JOB_STATE_N; s++) {
        enum job_state back = JOB_STATE_N;
        bad +=
            job_state_from_name(job_state_name((enum job_state)s), &back) < 0 ||
            (int)back != s;
    }
    is_int(bad, 0, "names of states lead back");
    for (int e = 0; e < EV_N; e++) {
        enum job_event back = EV_N;
        bad +=
            job_event_from_name(job_event_name((enum job_event)e), &back) < 0 ||
            (int)back != e;
    }
    is_int(bad, 0, "names of events lead back");
    enum job_state s = JOB_HELD;
    enum job_event e = EV_RUN;
    is_int(job_state_from_name("queued", &s), -1, "case matters");
    is_int(job_event_from_name("", &e), -1, "no name");
    ok(s == JOB_HELD && e == EV_RUN, "and nothing is changed");
    is_str(job_state_name(JOB_STATE_N), "?", "no such state");
    is_str(job_event_name(EV_N), "?", "no such event");
}

static void test_kinds(void)
{
    int both = 0, final = 0, live = 0;
    for (int s = 0; s < JOB_STATE_N; s++) {
        bool f = job_state_is_final((enum job_state)s);
        bool l = job_state_is_live((enum job_state)s);
        both += f && l;
        final += f;
        live += l;
    }
    is_int(both, 0, "no state is live and final");
    is_int(final, 5, "five ends");
    is_int(live, 6, "six states hold devices, or may");
}

int main(void)
{
    test_table();
    test_names();
    test_kinds();
    return tap_done();
}
