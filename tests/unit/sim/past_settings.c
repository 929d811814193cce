/* past_settings.c - the settings of admin.log, and which run gets which of
 * them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/conf/conf.h"
#include "scheduler/sim/args.h"
#include "scheduler/sim/replay.h"
#include "tests/tap.h"

/* 2026-11-01T00:00:00Z */
static const double first_s = 1793491200;

static void stop(const char *why)
{
    (void)printf("Bail out! %s\n", why);
    exit(1);
}

static int read_text(const char *text, struct past *ret, struct error *err)
{
    struct lines l;
    int rc = lines_text(&l, "admin.log", text, strlen(text), err);

    *ret = (struct past){.n_actions = 0};
    if (rc == 0) {
        rc = past_settings_read(&l, first_s, first_s + 3600, ret, err);
        lines_clear(&l);
    }
    return rc;
}

static const char *value_of(const struct past_settings *s, const char *key)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->at[i].key, key) == 0)
            return s->at[i].value;
    return "";
}

#define LIMIT "limits.max_running_per_user"
#define LINE(at, action, detail)                                \
    "{\"at\":\"2026-" at "Z\",\"uid\":0,\"do\":\"" action "\"," \
    "\"detail\":" detail "}\n"

static const char some[] =
    /* before the first submit */
    LINE("10-31T23:00:00", "policy",
         "{\"set\":{\"" LIMIT "\":{\"old\":\"null\",\"value\":\"3\"}}}")
        LINE("11-01T00:10:00", "policy",
             "{\"set\":{\"" LIMIT "\":{\"old\":\"3\",\"value\":\"1\"},"
             "\"scheduler.policy\":{\"old\":\"backfill\",\"value\":\"fifo\"}}}")
            LINE("11-01T00:15:00.500", "pause", "{\"why\":\"x\"}")
                LINE("11-01T00:20:00", "policy",
                     "{\"unset\":{\"" LIMIT
                     "\":{\"old\":\"1\",\"value\":\"null\"}}}")
                    LINE("11-01T00:30:00", "policy",
                         "{\"set\":{\"limits.of_old\":{\"old\":\"1\",\"value\":"
                         "\"2\"}}}");

static void test_read(void)
{
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    struct past p;

    bool is_read = read_text(some, &p, &err) == 0 && p.n_settings == 4;
    ok(is_read, "the lines are read, %zu settings", p.n_settings);
    if (!is_read)
        stop(err.msg);
    ok(p.settings[0].t_s <= 0 && p.settings[1].t_s >= 600 &&
           p.settings[1].t_s <= 600 && p.settings[2].t_s >= 1200,
       "they have their times since the first submit");
    is_str(value_of(&p.settings[0], LIMIT), "3", "set before the first submit");
    is_str(p.settings[0].policy, "backfill",
           "the policy is that before its first change");
    is_str(value_of(&p.settings[1], LIMIT), "1", "set again");
    is_str(p.settings[1].policy, "fifo", "the policy changes");
    is_str(value_of(&p.settings[2], LIMIT), "null", "a key is reset");
    ok(p.settings[2].n == 1 && p.settings[2].at[0].is_base &&
           !p.settings[1].at[0].is_base,
       "  to what mgpu.yaml says");
    is_str(p.settings[2].policy, "fifo", "and the policy stays");
    ok(p.n_admin == 1 && p.n_unknown_keys == 1,
       "a pause and an unknown key are counted");
    ok(past_not_replayed(&p, &text, &err) == 0, "what is not repeated");
    ok(strstr(buf_str(&text), "1 actions such as pause") &&
           strstr(buf_str(&text), "1 settings of keys that are no more"),
       "is named: %s", buf_str(&text));
    buf_clear(&text);
    from_db_clear(&p);
    ok(read_text("", &p, &err) == 0 && p.n_settings == 1 &&
           p.settings[0].policy[0] == '\0',
       "no line is no setting");
    from_db_clear(&p);
}

#define RUN "scheduler.goodput.min_runtime"
static const char reloads[] =
    LINE("11-01T00:10:00", "policy",
         "{\"set\":{\"" RUN "\":{\"old\":\"5s\",\"value\":\"9s\"}}}")
        LINE("11-01T00:20:00", "reload",
             "{\"changed\":\"" LIMIT ", log.level\",\"set\":{\"" LIMIT
             "\":{\"old\":\"2\",\"value\":\"4\"},\"log.level\":{\"old\":"
             "\"info\",\"value\":\"debug\"}}}")
            LINE("11-01T00:30:00", "reload", "{\"failed\":\"x\"}");

/* What mgpu.yaml said is in the lines that change it. */
static void test_base(void)
{
    struct sim_trace t = {.n = 0};
    struct error err = ERROR_INIT;
    struct replay r;
    struct past p;

    if (read_text(reloads, &p, &err) < 0 || p.n_settings != 4)
        stop(err.msg);
    is_str(value_of(&p.settings[0], RUN), "5s", "before it was set");
    is_str(value_of(&p.settings[0], LIMIT), "2", "before mgpu.yaml changed");
    is_str(value_of(&p.settings[1], LIMIT), "2", "  likewise");
    is_str(value_of(&p.settings[2], LIMIT), "4", "mgpu.yaml changes");
    is_str(value_of(&p.settings[3], RUN), "9s", "a set key stays");
    ok(p.n_unknown_keys == 0 && p.n_admin == 0, "nothing is left out");

    struct past_settings first = replay_begin(&p, true);
    struct conf conf;
    ok(sim_policy_args(NULL, NULL, &first, &conf, &err) == 0 &&
           sim_policy_args_of(&conf).goodput.min_runtime_s <= 5 &&
           sim_policy_args_of(&conf).limits.running_per_user == 2,
       "the run begins with them");
    conf_clear(&conf);
    ok(replay_make(&p, &t, NULL, NULL, true, &r, &err) == 0 && r.n == 3 &&
           r.actions[0].policy->goodput.min_runtime_s >= 9 &&
           r.actions[1].policy->limits.running_per_user == 4,
       "and they change in their time");
    replay_clear(&r);

    char path[] = "/tmp/mgpu-past.XXXXXX";
    static const char text[] =
        "version: 1\nlimits: {max_running_per_user: 7}\n";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        stop(path);
    (void)close(fd);
    ok(replay_make(&p, &t, path, NULL, true, &r, &err) == 0 &&
           r.actions[1].policy->limits.running_per_user == 7 &&
           r.actions[1].policy->goodput.min_runtime_s >= 9,
       "a file has its own values, but for keys that were set");
    replay_clear(&r);
    (void)unlink(path);
    from_db_clear(&p);
}

static void test_bad(void)
{
    static const char long_value[] =
        LINE("11-01T00:10:00", "policy",
             "{\"set\":{\"" LIMIT "\":{\"value\":\"0123456789012345678901234567"
             "890123456789012345678901234567890123456789\"}}}");
    struct error err = ERROR_INIT;
    struct past p;

    ok(read_text("\n{\"at\":\"now\"}\n", &p, &err) < 0 && err.code == ERR_INVAL,
       "a bad time is refused");
    ok(strstr(err.msg, "admin.log:2:1: ") != NULL, "%s", err.msg);
    from_db_clear(&p);
    ok(read_text("[1]\n", &p, &err) < 0, "and a line that is no object");
    from_db_clear(&p);
    ok(read_text(long_value, &p, &err) < 0 &&
           strstr(err.msg, "admin.log:1:1: "),
       "and a long value: %s", err.msg);
    from_db_clear(&p);
}

static void add_action(struct past *p, double t_s, enum sim_act act)
{
    p->actions[p->n_actions++] = (struct past_action){
        .t_s = t_s, .act = act, .job = 7, .gpus = act == ACT_RESIZE ? 2 : 0};
}

static void test_runs(void)
{
    struct sim_job job = {.name = "a", .id = 7};
    struct sim_trace t = {.jobs = &job, .n = 1};
    struct error err = ERROR_INIT;
    struct replay r;
    struct past p;
    bool is_past;
    char ran[REPLAY_POLICY_CAP];
    struct buf text = BUF_INIT;

    if (read_text(some, &p, &err) < 0)
        stop(err.msg);
    p.actions = calloc(3, sizeof(*p.actions));
    if (!p.actions)
        stop("no memory");
    add_action(&p, 100, ACT_HOLD);
    add_action(&p, 700, ACT_RESIZE);
    add_action(&p, 1300, ACT_RELEASE);

    ok(replay_is_past(&p, NULL, NULL, NULL, &is_past, &err) == 0 && is_past,
       "without --policy the run is that of the past");
    ok(replay_is_past(&p, NULL, "fifo", ran, &is_past, &err) == 0 && !is_past,
       "another policy is not");
    is_str(ran, "backfill", "but the first one in admin.log");
    ok(replay_is_past(&p, NULL, "backfill:preempt.enabled=true", NULL, &is_past,
                      &err) == 0 &&
           is_past,
       "the policy at the first submit is, with keys as well");

    ok(replay_make(&p, &t, NULL, "backfill", true, &r, &err) == 0 && r.n == 6,
       "the past has all of it");
    ok(r.actions[0].act == ACT_HOLD && r.actions[1].act == ACT_POLICY &&
           r.actions[2].act == ACT_RESIZE && r.actions[2].gpus == 2 &&
           r.actions[3].act == ACT_POLICY && r.actions[4].act == ACT_RELEASE,
       "in the order of time");
    is_str(r.actions[1].policy->policy->name, "fifo",
           "its policy becomes that which was set");
    ok(r.actions[1].policy->limits.running_per_user == 1 &&
           r.actions[3].policy->limits.running_per_user == 0,
       "its limits those that were set and reset");
    ok(replay_left_out(&r, "backfill", ran, 0, &text, &err) == 0 &&
           text.len == 0,
       "nothing is left out");
    ok(replay_left_out(&r, "backfill", ran, 2, &text, &err) == 0,
       "unless it did not apply");
    is_str(buf_str(&text), ", under backfill 2 actions that did not apply then",
           "which is said");
    buf_clear(&text);
    replay_clear(&r);

    ok(replay_make(&p, &t, NULL, "backfill:preempt.enabled=true", false, &r,
                   &err) == 0 &&
           r.n == 5 && r.actions[1].act == ACT_POLICY &&
           r.actions[2].act == ACT_POLICY,
       "another policy has no resize");
    is_str(r.actions[1].policy->policy->name, "backfill", "it stays itself");
    ok(r.actions[1].policy->limits.running_per_user == 1 &&
           r.actions[1].policy->preempt.is_on,
       "with the limits that were set, and its own keys");
    ok(replay_left_out(&r, "fifo", ran, 0, &text, &err) == 0, "that is said");
    is_str(buf_str(&text),
           ", under fifo 1 resize (admin.log or --config says that backfill "
           "ran)",
           "with the policy that ran");
    buf_clear(&text);
    replay_clear(&r);
    from_db_clear(&p);
}

int main(void)
{
    test_read();
    test_base();
    test_bad();
    test_runs();
    return tap_done();
}
