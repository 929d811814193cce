/* fold.c - the details of events, and what each event makes of a job. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "tests/tap.h"

static struct job template(void)
{
    return (struct job){
        .spec = "{\"lr\":1e-3,\"x\":0.1}",
        .key = "k1",
        .user = "anna",
        .name = "n\xc3\xa4me",
        .kind = "command",
        .priority = -50,
        .gpus_min = 1,
        .gpus_max = 4,
        .nodes_min = 1,
        .nodes_max = 2,
        .limit_s = INFINITY,
        .grace_s = 2.5,
        .retry_max = 3,
        .retry_on = RETRY_EXIT | RETRY_TIME_LIMIT,
        .backoff_s = 1.5,
        .backoff_max_s = 60,
        .goal = GOAL_SPEED,
        .min_efficiency = 0.625,
        .owner = "0123456789abcdef0123456789abcdef",
    };
}

static void entry_end(struct job_record *rec)
{
    texts_clear(&rec->own);
    memset(rec, 0, sizeof(*rec));
}

static void test_submit_codec(void)
{
    struct job in = template(), out = {0};
    struct error err = ERROR_INIT;
    struct texts own;
    char *text;

    ok(submit_encode(&in, "c/1", "program/p", &text, &err) == 0,
       "encode a submit");
    ok(submit_decode(text, NULL, &out, &own, &err) == 0, "decode it");
    is_str(own.spec, in.spec, "the spec byte for byte");
    is_str(own.key, "k1", "the key");
    is_str(own.class, "c/1", "the class");
    is_str(out.user, "anna", "the user");
    is_str(out.owner, in.owner, "whose its directories are");
    is_str(out.name, in.name, "the name");
    is_str(out.kind, "command", "the kind");
    ok(out.priority == -50 && out.gpus_min == 1 && out.gpus_max == 4 &&
           out.nodes_min == 1 && out.nodes_max == 2 && out.retry_max == 3 &&
           out.goal == GOAL_SPEED && fabs(out.min_efficiency - 0.625) < 1e-9,
       "the numbers");
    ok(out.retry_on == 24 && fabs(out.backoff_s - 1.5) < 1e-9 &&
           fabs(out.backoff_max_s - 60) < 1e-9,
       "the rules of retries");
    ok(isinf(out.limit_s) && fabs(out.grace_s - 2.5) < 1e-12, "the times");
    ok(own.dir == NULL, "no directory of its own");
    texts_clear(&own);
    free(text);
    text = NULL;

    in.dir = "/home/anna/7";
    ok(submit_encode(&in, "c/1", "program/p", &text, &err) == 0,
       "encode one with one");
    ok(submit_decode(text, NULL, &out, &own, &err) == 0, "decode it");
    is_str(own.dir, "/home/anna/7", "its own directory");
    texts_clear(&own);

    ok(submit_decode(text, in.spec, &out, &own, &err) == 0 &&
           strcmp(own.spec, in.spec) == 0 && strcmp(own.key, "k1") == 0,
       "the same when the spec is known");
    texts_clear(&own);
    ok(submit_decode(text, "{", &out, &own, &err) == 0 &&
           strcmp(own.spec, in.spec) == 0,
       "and when it is another");
    texts_clear(&own);
    free(text);
    text = NULL;

    in.kind = "llm";
    ok(submit_encode(&in, NULL, NULL, &text, &err) == 0 &&
           submit_decode(text, NULL, &out, &own, &err) == 0,
       "one of another kind");
    is_str(out.kind, "llm", "which it keeps");
    texts_clear(&own);
    free(text);
}

/* An event from before there was a "where" has none, either. */
static void test_where_codec(void)
{
    struct job in = template(), out = {0};
    struct error err = ERROR_INIT;
    struct texts own;
    char *text;

    ok(submit_encode(&in, NULL, NULL, &text, &err) == 0, "nothing for Slurm");
    ok(!strstr(text, "where"), "  is not said");
    ok(submit_decode(text, NULL, &out, &own, &err) == 0, "  and read");
    ok(!own.words && !out.where.partition && !out.where.exclusive &&
           out.where.cpus_per_gpu == 0 && out.where.memory_bytes == 0,
       "  as nothing");
    texts_clear(&own);
    free(text);
    text = NULL;

    in.where = (struct alloc_where){.partition = "p",
                                    .account = "a",
                                    .qos = "q",
                                    .constraint = "c&d",
                                    .reservation = "r",
                                    .gpu_type = "h100",
                                    .cpus_per_gpu = 8,
                                    .memory_bytes = 5000000000,
                                    .gpu_min_bytes = 7,
                                    .gpu_max_bytes = 9,
                                    .exclusive = true};
    ok(submit_encode(&in, NULL, NULL, &text, &err) == 0,
       "everything for Slurm");
    ok(submit_decode(text, NULL, &out, &own, &err) == 0, "  is read");
    is_str(out.where.partition, "p", "  partition");
    is_str(out.where.account, "a", "  account");
    is_str(out.where.qos, "q", "  qos");
    is_str(out.where.constraint, "c&d", "  constraint");
    is_str(out.where.reservation, "r", "  reservation");
    is_str(out.where.gpu_type, "h100", "  gpu_type");
    ok(out.where.cpus_per_gpu == 8 && out.where.memory_bytes == 5000000000 &&
           out.where.gpu_min_bytes == 7 && out.where.gpu_max_bytes == 9 &&
           out.where.exclusive,
       "  numbers");
    texts_clear(&own);
    free(text);
}

static void test_submit_damaged(void)
{
    struct job in = template(), out = {0};
    struct error err = ERROR_INIT;
    struct texts own;
    char *text;

    in.limit_s = 90;
    ok(submit_encode(&in, NULL, NULL, &text, &err) == 0, "without a class");
    ok(submit_decode(text, NULL, &out, &own, &err) == 0, "decode it");
    ok(own.class == NULL, "no class");
    ok(fabs(out.limit_s - 90) < 1e-12, "a limit");
    texts_clear(&own);

    /* Cut anywhere, it is refused, not believed. */
    size_t len = strlen(text), n_taken = 0;
    for (size_t i = 0; i < len; i++) {
        char *cut = strndup(text, i);
        n_taken += submit_decode(cut, NULL, &out, &own, &err) == 0;
        free(cut);
    }
    is_int((long long)n_taken, 0, "a cut detail is never taken");
    free(text);

    in.user[0] = '\xff';
    is_int(submit_encode(&in, NULL, NULL, &text, &err), -1,
           "a user in no UTF-8");
    is_int(err.code, ERR_INVAL, "  is refused");
}

static void test_detail_codec(void)
{
    struct detail in = DETAIL_INIT, out;
    struct error err = ERROR_INIT;
    char *text;

    ok(detail_encode(&in, &text, &err) == 0 && !text, "nothing is NULL");
    ok(detail_decode(NULL, &out, &err) == 0, "and back");
    ok(out.exit_code == -1 && out.why[0] == '\0', "with nothing in it");
    in.exit_code = 0;
    in.retry = 1;
    (void)strncpy(in.why, "tab\there \"quoted\" \xff\xe2\x82\xac",
                  sizeof(in.why) - 1);
    ok(detail_encode(&in, &text, &err) == 0, "encode");
    is_str(text,
           "{\"exit_code\":0,\"retry\":1,"
           "\"why\":\"tab?here \\\"quoted\\\" ?\xe2\x82\xac\"}",
           "only what is said, as UTF-8");
    ok(detail_decode(text, &out, &err) == 0, "decode");
    ok(out.exit_code == 0 && out.retry == 1 && out.signal == -1, "numbers");
    free(text);
    text = NULL;
    in = (struct detail)DETAIL_INIT;
    in.iteration = 5000000000;
    in.epoch = 3;
    in.loss = 0.25;
    in.eval_loss = 0.5;
    ok(detail_encode(&in, &text, &err) == 0, "how far an attempt came");
    is_str(text,
           "{\"iteration\":5000000000,\"epoch\":3,\"loss\":0.25,"
           "\"eval_loss\":0.5}",
           "  without what nobody knows");
    ok(detail_decode(text, &out, &err) == 0, "decode");
    ok(out.iteration == 5000000000 && out.epochs_total == 0 &&
           fabs(out.loss - 0.25) < 1e-12 && fabs(out.eval_loss - 0.5) < 1e-12 &&
           isnan(out.eval_accuracy),
       "  and nobody does");
    free(text);
    is_int(detail_decode("[1]", &out, &err), -1, "no object");
    is_int(detail_decode("{", &out, &err), -1, "no JSON");
    is_int(err.code, ERR_INVAL, "  is refused");
    is_int(detail_decode("{\"why\":7,\"signal\":\"x\",\"loss\":\"x\","
                         "\"iteration\":0.5}",
                         &out, &err),
           0, "a wrong type");
    ok(out.why[0] == '\0' && out.signal == -1 && isnan(out.loss) &&
           out.iteration == 0,
       "  is as if absent");
}

/* One under, exact, one over, and never through a character. */
/* A job on many nodes has a long place. */
static void test_longest_texts(void)
{
    struct detail in = DETAIL_INIT, out;
    struct error err = ERROR_INIT;
    char *text = NULL;

    memset(in.place, 'p', sizeof(in.place) - 1);
    memset(in.native_id, 'i', sizeof(in.native_id) - 1);
    memset(in.holder, 'h', sizeof(in.holder) - 1);
    memset(in.why, 'w', sizeof(in.why) - 1);
    memset(in.held, 'd', sizeof(in.held) - 1);
    is_int(detail_encode(&in, &text, &err), 0, "each text at its longest");
    is_int(detail_decode(text, &out, &err), 0, "comes back");
    is_str(out.place, in.place, "place");
    is_str(out.native_id, in.native_id, "native_id");
    is_str(out.holder, in.holder, "holder");
    is_str(out.why, in.why, "why");
    is_str(out.held, in.held, "held");
    free(text);
}

/* Of a reason that is too long the begin and the end stay, whole words. What
 * Slurm says of a wrong account is not too long. */
static void test_because(void)
{
    struct detail d = DETAIL_INIT;
    char text[400] = "";
    while (strlen(text) < 350)
        (void)strcat(text, "word ");
    (void)strcat(text, "and the end");
    detail_because(&d, "could not be started: ", text);
    size_t n = strlen(d.why);
    ok(n > sizeof(d.why) - 12 && strstr(d.why, " word ... word ") != NULL &&
           strcmp(d.why + n - 12, " and the end") == 0,
       "cut between words: %s", d.why);
    detail_because(&d, "could not be started: ",
                   "Slurm: Invalid account or account/partition combination "
                   "specified (2045); see sacctmgr show assoc user=$USER");
    ok(strstr(d.why, "assoc user=$USER") != NULL, "whole: %s", d.why);
    memset(text, 'x', 399);
    detail_because(&d, "a: ", text);
    is_int((long long)strlen(d.why), (long long)sizeof(d.why) - 1,
           "a word that is too long is cut");
    for (size_t i = 0; i < 398; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    detail_because(&d, "", text);
    is_int(strchr(d.why, '?') == NULL && strlen(d.why) > sizeof(d.why) - 4, 1,
           "between characters");
}

static void test_text_copy(void)
{
    char dst[8];

    text_copy(dst, sizeof(dst), "123456");
    is_str(dst, "123456", "one under");
    text_copy(dst, sizeof(dst), "1234567");
    is_str(dst, "1234567", "exact");
    text_copy(dst, sizeof(dst), "12345678");
    is_str(dst, "1234567", "one over is cut");
    text_copy(dst, sizeof(dst), "12345\xe2\x82\xac");
    is_str(dst, "12345", "cut before a character, not in it");
    text_copy(dst, sizeof(dst), "1234\xe2\x82\xac");
    is_str(dst, "1234\xe2\x82\xac", "a character that just fits");
    text_copy(dst, sizeof(dst), "\xc0\xaf\xed\xa0\x80");
    is_str(dst, "?????", "overlong and surrogate");
    text_copy(dst, sizeof(dst), "\xf4\x90\x80\x80\xe2\x82");
    is_str(dst, "??????", "beyond Unicode, and cut short");
}

struct step {
    enum job_event ev;
    const char *detail;
    enum job_state state; /* after it */
    const char *reason;
    int exit_code;
};

/* Folds the steps on a new job, the n-th at second n. */
static void folds(const struct step *steps, size_t n, struct job_record *rec,
                  const char *what)
{
    struct job in = template();
    struct error err = ERROR_INIT;
    char *submit;

    memset(rec, 0, sizeof(*rec));
    rec->job.id = 1;
    rec->job.exit_code = -1;
    rec->job.start_s = rec->job.end_s = NAN;
    rec->attempt_end_s = NAN;
    if (submit_encode(&in, NULL, NULL, &submit, &err) < 0)
        abort();
    for (size_t i = 0; i < n; i++) {
        const struct step *s = &steps[i];
        struct store_event ev = {
            .job = 1,
            .attempt = rec->job.attempt + (s->ev == EV_INTENT),
            .ev = s->ev,
            .at_s = (double)i,
            .uid = 1000,
            .detail = s->ev == EV_SUBMIT ? submit : s->detail,
        };
        bool good = eng_fold(rec, &ev, &err) == 0 &&
                    rec->job.state == s->state &&
                    strcmp(rec->job.reason, s->reason) == 0 &&
                    rec->job.exit_code == s->exit_code;
        ok(good, "%s: %s", what, job_event_name(s->ev));
        if (!good)
            tap_diag("is %s, '%s', %d", job_state_name(rec->job.state),
                     rec->job.reason, rec->job.exit_code);
    }
    free(submit);
}
#define FOLDS(steps, rec, what) \
    folds((steps), sizeof(steps) / sizeof((steps)[0]), (rec), (what))

static const char intent[] = "{\"nodes\":2,\"gpus\":4}";

static void test_life(void)
{
    static const struct step steps[] = {
        {EV_SUBMIT, NULL, JOB_QUEUED, "", -1},
        {EV_HOLD, NULL, JOB_HELD, "Held: by its user", -1},
        {EV_RELEASE, NULL, JOB_QUEUED, "", -1},
        {EV_INTENT, "{\"nodes\":2,\"gpus\":4,\"gpu_type\":\"a100\"}",
         JOB_DISPATCHING, "", -1},
        {EV_UNKNOWN, "{\"why\":\"late\"}", JOB_UNKNOWN, "late", -1},
        {EV_GRANT, "{\"native_id\":\"7\",\"place\":\"n1:0,1 n2:0,1\"}",
         JOB_UNKNOWN, "", -1},
        {EV_CLAIM, "{\"holder\":\"h\"}", JOB_STARTING, "", -1},
        {EV_RUN, NULL, JOB_RUNNING, "", -1},
        {EV_STALL, "{\"why\":\"silent\"}", JOB_STALLED, "silent", -1},
        {EV_REQUEUE,
         "{\"why\":\"lost\",\"exit_code\":125,\"retry\":1,"
         "\"wait_ms\":2500}",
         JOB_QUEUED, "lost", -1},
        {EV_INTENT, intent, JOB_DISPATCHING, "", -1},
        {EV_GRANT, "{\"native_id\":\"8\",\"place\":\"n1:0,1 n2:0,1\"}",
         JOB_DISPATCHING, "", -1},
        {EV_CLAIM, "{\"holder\":\"h2\",\"native_id\":\"9\"}", JOB_STARTING, "",
         -1},
        {EV_RUN, NULL, JOB_RUNNING, "", -1},
        {EV_REPORT, "{\"exit_code\":0,\"why\":\"done\"}", JOB_RUNNING, "done",
         -1},
        {EV_FINISH, "{\"exit_code\":0,\"why\":\"done\"}", JOB_COMPLETED, "done",
         0},
    };
    struct job_record rec;

    folds(steps, 10, &rec, "first attempt");
    ok(rec.attempt_state == JOB_STALLED && rec.attempt_exit == 125,
       "its row says how it ended");
    is_str(rec.job.gpu_type, "a100", "the type that was chosen for it");
    ok(rec.job.retries == 1 && isnan(rec.job.start_s), "a retry is used up");
    ok(fabs(rec.job.requeue_wait_s - 2.5) < 1e-9, "and it waits");
    entry_end(&rec);
    FOLDS(steps, &rec, "second");
    ok(rec.job.attempt == 2 && rec.job.gpus == 4 && rec.job.nodes == 2,
       "the second attempt");
    is_str(rec.job.gpu_type, "", "for it none was, as in older logs");
    is_str(rec.job.holder, "h2", "its holder");
    is_str(rec.job.native_id, "9", "where it says that it is");
    ok(rec.job.claim_names_id, "  by its own account");
    is_str(rec.job.place, "", "the place of another allocation is forgotten");
    ok(fabs(rec.job.start_s - 11) < 1e-9 && fabs(rec.job.end_s - 15) < 1e-9,
       "it starts with its grant");
    entry_end(&rec);
}

/* Each attempt counts its own, and the job stays what it is. */
static void test_save_failed(void)
{
    static const struct step steps[] = {
        {EV_SUBMIT, NULL, JOB_QUEUED, "", -1},
        {EV_INTENT, intent, JOB_DISPATCHING, "", -1},
        {EV_CLAIM, "{\"holder\":\"h\"}", JOB_STARTING, "", -1},
        {EV_SAVE_FAILED, "{\"why\":\"no room\",\"saves_failed\":1}",
         JOB_STARTING, "", -1},
        {EV_SAVE_FAILED, "{\"why\":\"again\",\"saves_failed\":2}", JOB_STARTING,
         "", -1},
    };
    struct error err = ERROR_INIT;
    struct job_record rec;

    FOLDS(steps, &rec, "checkpoints that fail");
    is_int(rec.job.saves_failed, 2, "  are counted");
    struct store_event ev = {.job = 7, .attempt = 1, .ev = EV_REQUEUE};
    ok(eng_fold(&rec, &ev, &err) == 0, "%s", err.msg);
    ev = (struct store_event){
        .job = 7, .attempt = 2, .ev = EV_INTENT, .detail = (char *)intent};
    ok(eng_fold(&rec, &ev, &err) == 0 && rec.job.saves_failed == 0,
       "  and counted again in the next attempt");
    entry_end(&rec);
}

static void test_cancel(void)
{
    static const struct step waiting[] = {
        {EV_SUBMIT, NULL, JOB_QUEUED, "", -1},
        {EV_CANCEL, NULL, JOB_CANCELLED, "cancelled by its user", 130},
    };
    static const struct step live[] = {
        {EV_SUBMIT, NULL, JOB_QUEUED, "", -1},
        {EV_INTENT, intent, JOB_DISPATCHING, "", -1},
        {EV_CANCEL, NULL, JOB_DISPATCHING, "cancelled by its user", -1},
        {EV_KILLED, "{\"exit_code\":130,\"signal\":15,\"why\":\"gone\"}",
         JOB_CANCELLED, "gone", 130},
    };
    struct job_record rec;

    FOLDS(waiting, &rec, "waiting");
    entry_end(&rec);
    FOLDS(live, &rec, "live");
    ok(rec.job.cancel_asked && rec.job.cancel_uid == 1000, "who asked");
    ok(rec.attempt_signal == 15, "what it died of");
    entry_end(&rec);
}

/* A job in any state, hit by any event: it moves along the table of
 * jobs/state.c, or nothing of it changes. */
static void test_every_pair(void)
{
    struct error err = ERROR_INIT;
    int n_wrong = 0;

    for (int s = 0; s < JOB_STATE_N; s++) {
        for (int v = EV_SUBMIT + 1; v < EV_N; v++) {
            struct job_record rec = {.job = {.id = 1,
                                             .state = (enum job_state)s,
                                             .start_s = NAN,
                                             .is_run = v == EV_OPEN}};
            struct store_event ev = {
                .job = 1,
                .ev = (enum job_event)v,
                .attempt = job_event_begins((enum job_event)v),
                .detail = "{\"nodes\":1,\"gpus\":1,\"holder\":\"h\"}"};
            enum job_state to = JOB_STATE_N;
            int want = job_state_next((enum job_state)s, ev.ev, &to, &err);
            struct job_record before = rec;
            int got = eng_fold(&rec, &ev, &err);
            if (got != want || (got == 0 && rec.job.state != to) ||
                (got < 0 && memcmp(&before, &rec, sizeof(rec)) != 0))
                n_wrong++;
        }
    }
    is_int(n_wrong, 0, "every state and event");
    struct job_record rec = {.job = {.id = 1, .state = JOB_QUEUED}};
    struct store_event ev = {.job = 1, .ev = EV_HOLD, .detail = "rubbish"};
    struct store_event bare = {.job = 1, .attempt = 1, .ev = EV_INTENT};
    is_int(eng_fold(&rec, &bare, &err), -1, "an intent without its devices");
    bare.detail = "{\"nodes\":1,\"gpus\":0}";
    bare.attempt = 2;
    is_int(eng_fold(&rec, &bare, &err), -1, "  of an attempt too many");
    bare = (struct store_event){.job = 1, .attempt = 1, .ev = EV_OPEN};
    is_int(eng_fold(&rec, &bare, &err), -1, "an opening of no run");
    is_int(eng_fold(&rec, &ev, &err), -1, "a damaged detail");
    is_int(rec.job.state, JOB_QUEUED, "  changes nothing");
    ev = (struct store_event){.job = 1, .ev = EV_SUBMIT};
    rec.job.state = JOB_NEW;
    is_int(eng_fold(&rec, &ev, &err), -1, "a submit without a detail");
}

int main(void)
{
    test_submit_codec();
    test_where_codec();
    test_submit_damaged();
    test_detail_codec();
    test_longest_texts();
    test_text_copy();
    test_because();
    test_life();
    test_save_failed();
    test_cancel();
    test_every_pair();
    return tap_done();
}
