/* show.c - the views of mgpu-stat, from replies as the daemon sends them. */
#include "scheduler/tools/views/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/views/wait.h"
#include "tests/tap.h"
#include "tests/unit/tools/views/shown.h"

static const char queue_text[] =
    "{\"schema\":\"mgpu.queue/1\",\"cluster\":\"lo\\u001bcal\","
    "\"policy\":\"fifo\",\"slots_total\":4,\"slots_free\":1,\"running\":1,"
    "\"queued\":1,\"jobs\":[{\"id\":12,\"display_id\":\"12\",\"name\":"
    "\"mnist\",\"user\":\"anna\","
    "\"state\":\"RUNNING\",\"gpus_min\":1,\"gpus_max\":4,\"gpus\":3,"
    "\"iteration\":1200,\"iterations_total\":8622,\"t_iter_s\":0.5,"
    "\"loss\":0.874,\"elapsed_s\":600,\"eta_s\":3711,\"place\":\"n1:0,1,2\","
    "\"reason\":\"\"},{\"id\":13,\"display_id\":\"13\",\"name\":\"wide\","
    "\"user\":\"kyr\","
    "\"state\":\"QUEUED\",\"gpus_min\":2,\"gpus_max\":4,\"gpus\":0,"
    "\"iteration\":null,\"loss\":null,\"place\":null,"
    "\"reason\":\"WaitingForGpus: needs 2, 1 free\"}]}";

static void test_queue(void)
{
    json_t *o = load(queue_text);
    struct error err = ERROR_INIT;
    begin();
    is_int(show_queue(&conf, o, &err), 0, "a queue");
    (void)end();
    ok(has("4 GPUs or slots: 3 allocated, 1 idle | 1 running, 1 queued | "
           "policy "
           "fifo"),
       "the summary adds up");
    ok(has("lo\\x1bcal"), "a control byte from the daemon is shown as text");
    ok(has("1,200/8,622  2.00  0.874  10:00  1:01:51  n1:0,1,2"),
       "a running job: step, rate, loss, times, place");
    ok(has("PD  2..4") && has("WaitingForGpus: needs 2, 1 free"),
       "a waiting job: what it asked for and why it waits");
    begin();
    conf.header = false;
    is_int(show_queue(&conf, o, &err), 0, "no header");
    (void)end();
    ok(!strstr(shown, "JOBID") && !strstr(shown, "policy"), "rows only");
    json_decref(o);
}

/* Seconds to the start, and what is shown. */
static void test_eta(void)
{
    static const struct {
        const char *in_s, *want;
    } rows[] = {{"0", "~0s"},      {"89", "~89s"},       {"95", "~2m"},
                {"5399", "~90m"},  {"5401", "~2h"},      {"129599", "~36h"},
                {"129601", "~2d"}, {"8640000", "~100d"}, {"null", "-"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200], want[40];
        struct error err = ERROR_INIT;
        (void)snprintf(text, sizeof(text),
                       "{\"jobs\":[{\"id\":1,\"state\":\"QUEUED\","
                       "\"start_in_s\":%s}]}",
                       rows[i].in_s);
        json_t *o = load(text);
        begin();
        conf.header = false;
        conf.format = "eta,st";
        is_int(show_queue(&conf, o, &err), 0, "one that waits");
        (void)snprintf(want, sizeof(want), "%s  PD\n", rows[i].want);
        is_str(end(), want, rows[i].in_s);
        json_decref(o);
    }
}

/* A job's command, as a shell takes it. */
static void commanded(const char *words, const char *want)
{
    char text[600], line[200];
    struct error err = ERROR_INIT;
    (void)snprintf(text, sizeof(text),
                   "{\"job\":{\"id\":4,\"display_id\":\"4\",\"kind\":"
                   "\"command\",\"state\":\"QUEUED\",\"spec\":{\"command\":"
                   "[%s]}}}",
                   words);
    (void)snprintf(line, sizeof(line), "\n command    %s\n", want);
    json_t *job = load(text);
    begin();
    is_int(show_job(&conf, job, NULL, NULL, &err), 0, "a command");
    (void)end();
    ok(has(line), "%s", want);
    json_decref(job);
}

static void test_command(void)
{
    commanded("\"python3\",\"train.py\",\"--lr=0.1\",\"a+b@c%d:e,f/g_h\"",
              "python3 train.py --lr=0.1 a+b@c%d:e,f/g_h");
    commanded("\"sh\",\"-c\",\"echo hi; echo $HOME\",\"\"",
              "sh -c 'echo hi; echo $HOME' ''");
    commanded("\"echo\",\"it's\",\"a\\\\b\",\"*\",\"~\",\"M\u00fcller\"",
              "echo 'it'\\''s' 'a\\b' '*' '~' 'M\xc3\xbcller'");
    commanded("\"echo\",\"one\\ntwo\\tit's \\\\n\\u001b[0m\\u202e\"",
              "echo $'one\\ntwo\\tit\\'s \\\\n\\x1b[0m\\xe2\\x80\\xae'");
    commanded("\"A=b\",\"A=b\"", "'A=b' A=b");
    commanded("", "-");
}

static void test_job(void)
{
    json_t *job =
        load("{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"user\":"
             "\"anna\",\"kind\":\"cv\","
             "\"state\":\"FAILED\",\"exit_code\":139,\"attempt\":2,"
             "\"reason\":\"rank 1 died of signal "
             "11\",\"submitted\":\"S\",\"started\":\"T\","
             "\"elapsed_s\":61,\"limit_s\":600,\"gpus\":2,\"gpus_min\":2,"
             "\"gpus_max\":4,\"spec\":{\"model\":{\"arch\":\"mobilenet_v2\","
             "\"width_mult\":1.0},\"dataset\":{\"source\":\"mnist\","
             "\"image_size\":32},\"train\":{\"epochs\":2,\"batch_size\":32,"
             "\"precision\":\"fp32\",\"distribution\":\"ddp-ds\",\"seed\":7,"
             "\"optimizer\":{\"name\":\"sgd\",\"lr\":0.05}}}},"
             "\"attempts\":[{\"attempt\":1,\"state\":\"RUNNING\",\"signal\":11,"
             "\"ended\":\"E\"},"
             "{\"attempt\":2,\"state\":\"FAILED\",\"exit_code\":139}],"
             "\"events\":[{\"event\":\"intent\",\"attempt\":1,\"detail\":"
             "{\"why\":\"of an earlier one\"}},{\"event\":\"intent\","
             "\"attempt\":2,\"detail\":{\"gpus\":2,\"why\":"
             "\"two\\u001b\"}},{\"event\":\"save_failed\",\"attempt\":1,"
             "\"detail\":{\"why\":\"the first of four\"}},"
             "{\"event\":\"save_failed\",\"attempt\":1,\"detail\":{"
             "\"why\":\"the second\"}},{\"event\":\"save_failed\","
             "\"attempt\":2,\"detail\":{\"why\":\"the third\"}},"
             "{\"event\":\"save_failed\",\"attempt\":2,\"detail\":{"
             "\"why\":\"the disk\\u001b is "
             "full\"}}],\"checkpoint\":\"/j/4/out/ckpt/step-8\","
             "\"best\":\"/j/4/out/ckpt/best\"}");
    json_t *epochs = load("{\"columns\":[\"attempt\",\"epoch\",\"seconds\","
                          "\"train_loss\",\"eval_loss\",\"eval_accuracy\","
                          "\"samples_per_s\"],\"rows\":[[1,1,9.5,0.7,0.2,"
                          "0.9412,1052.6],[1,2,9.4,0.1,0.1,0.9712,null]]}");
    json_t *status = load("{\"state_db\":\"/s/state.db\","
                          "\"metrics_db\":\"/s/metrics.db\"}");
    struct error err = ERROR_INIT;
    begin();
    is_int(show_job(&conf, job, epochs, status, &err), 0, "a job");
    (void)end();
    ok(has("Job 4  m  anna/cv  FAILED (139)  attempt 2"), "the first line");
    ok(has("reason     rank 1 died of signal 11"), "why");
    ok(has(" warning    attempt 1: the second\n"
           " warning    attempt 2: the third\n"
           " warning    attempt 2: the disk\\x1b is full\n"
           "            and 1 before, see --events\n") &&
           !has("first of four"),
       "the last checkpoints that failed");
    ok(has("mobilenet_v2 x1, mnist 32x32, 2 epochs, batch 32/GPU, fp32, "
           "ddp-ds, sgd lr 0.05, seed 7"),
       "the workload");
    ok(has("1:01 of 10:00"), "time and limit");
    ok(has("(asked 2..4)\n            chosen because: two\\x1b\n") &&
           !has("of an earlier one"),
       "why so many GPUs");
    ok(has("test accuracy 97.12 % (best, epoch 2)"), "the result");
    ok(has(" checkpoint /j/4/out/ckpt/step-8\n best       /j/4/out/ckpt/best"),
       "and what is left of it");
    ok(has("1      9.5      0.7000     0.2000   94.12 %       1053"),
       "a row per epoch");
    ok(has("/s/metrics.db"), "where the databases are");
    ok(has("ATTEMPT") && has("139"), "the attempts of a job that failed");
    ok(has("      1  REQUEUED") && has("      2  FAILED"),
       "none of which is running");
    json_decref(job);
    json_decref(epochs);
    json_decref(status);
}

/* Suspended in Slurm: it has no rate, and the row says so. */
static void test_suspended(void)
{
    json_t *o = load("{\"jobs\":[{\"id\":1,\"state\":\"RUNNING\",\"t_iter_s\":"
                     "0.1,\"place\":\"n1:0\",\"reason\":\"Slurm(Suspended)\"},"
                     "{\"id\":2,\"state\":\"RUNNING\",\"t_iter_s\":0.1,"
                     "\"place\":\"n1:1\",\"reason\":\"other\"}]}");
    struct error err = ERROR_INIT;
    begin();
    conf.header = false;
    conf.format = "st,rate,where";
    is_int(show_queue(&conf, o, &err), 0, "a suspended job");
    is_str(end(), "S     -  Slurm(Suspended)\nR  10.0  n1:1\n", "says so");
    json_decref(o);
}

static void test_pending(void)
{
    json_t *job =
        load("{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"state\":"
             "\"DISPATCHING\","
             "\"reason\":\"Slurm(Priority)\",\"native_id\":\"4711\","
             "\"gpus\":2,\"gpus_min\":2,\"gpus_max\":2},\"attempts\":[]}");
    json_t *live =
        load("{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"state\":"
             "\"RUNNING\","
             "\"started\":\"T\",\"place\":\"n1:0,1\",\"native_id\":\"4711\","
             "\"gpus\":2,\"gpus_min\":2,\"gpus_max\":2},\"attempts\":[]}");
    json_t *waits =
        load("{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"state\":"
             "\"QUEUED\",\"attempt\":0,\"gpus\":0,\"gpus_min\":2},"
             "\"attempts\":[]}");
    json_t *local =
        load("{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"state\":"
             "\"RUNNING\","
             "\"started\":\"T\",\"place\":\"h:0\",\"native_id\":\"pid:9\","
             "\"gpus\":1,\"gpus_min\":1,\"gpus_max\":1},\"attempts\":[]}");
    json_t *again = load(
        "{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"state\":"
        "\"QUEUED\",\"attempt\":1,\"place\":\"n1:0,1\",\"native_id\":\"4711\","
        "\"gpus\":2,\"gpus_min\":2,\"gpus_max\":4},\"attempts\":[{\"attempt\":"
        "1,"
        "\"state\":\"RUNNING\",\"gpus\":2,\"place\":\"n1:0,1\",\"native_id\":"
        "\"4711\",\"ended\":\"2026-11-21T10:00:00Z\"}],\"events\":[{\"event\":"
        "\"intent\",\"attempt\":1,\"detail\":{\"why\":\"fewest\"}}]}");
    struct error err = ERROR_INIT;
    begin();
    is_int(show_job(&conf, job, NULL, NULL, &err), 0, "a job in Slurm's queue");
    (void)end();
    ok(has("2 (asked 2)   Slurm 4711, not granted yet\n"), "has Slurm's id");
    begin();
    is_int(show_job(&conf, live, NULL, NULL, &err), 0, "one that runs");
    (void)end();
    ok(has("2 (asked 2)   on n1:0,1   Slurm 4711\n"), "and its place");
    begin();
    is_int(show_job(&conf, local, NULL, NULL, &err), 0, "one of this machine");
    (void)end();
    ok(has("on h:0   pid:9\n"), "has another kind of id");
    (void)json_object_set_new(json_object_get(waits, "job"), "gpus_max",
                              json_integer(4));
    begin();
    is_int(show_job(&conf, waits, NULL, NULL, &err), 0, "one that waits");
    (void)end();
    ok(has("  QUEUED\n") && !has("attempt") && has("gpus       asked 2..4\n"),
       "has no attempt and no GPUs yet");
    begin();
    is_int(show_job(&conf, again, NULL, NULL, &err), 0, "one that waits again");
    (void)end();
    ok(has("gpus       asked 2..4\n") && !has("granted") &&
           !has("chosen because"),
       "has none any more");
    ok(has("      1  REQUEUED     2  n1:0,1  4711"), "  its attempt had");
    begin();
    is_int(show_why(&conf, again, again, &err), 0, "and why");
    (void)end();
    ok(!has("known as"), "  nobody else knows of it now");
    json_decref(again);
    json_decref(waits);
    json_decref(job);
    json_decref(live);
    json_decref(local);
}

static const char nodes_text[] =
    "\"nodes\":[{\"name\":\"n1\",\"gpu_type\":\"h100\",\"gpus_total\":8,"
    "\"gpus_free\":1,\"is_up\":true,\"partitions\":\"batch*\","
    "\"used\":\"0-6 mgpu 12.1\"},{\"name\":\"n2\",\"gpu_type\":\"h100\","
    "\"gpus_total\":8,\"gpus_free\":8,\"is_up\":false,"
    "\"state\":\"drained\",\"why\":\"drained: fan\","
    "\"partitions\":\"batch*\"},{\"name\":\"n4\","
    "\"gpu_type\":\"h100\",\"gpus_total\":8,\"gpus_free\":8,"
    "\"is_up\":false,\"why\":\"down: power\"},"
    "{\"name\":\"n3\",\"gpu_type\":\"a100\",\"gpus_total\":4,"
    "\"gpus_free\":4,\"is_up\":true,\"reservation\":\"maint\","
    "\"is_open\":false},{\"name\":\"n3\",\"gpu_type\":\"t4\","
    "\"gpus_total\":2,\"gpus_free\":2,\"is_up\":true,\"reservation\":"
    "\"maint\",\"is_open\":false}]";

static void test_nodes(void)
{
    char text[1000];
    struct error err = ERROR_INIT;
    (void)snprintf(text, sizeof(text), "{%s}", nodes_text);
    json_t *o = load(text);
    begin();
    is_int(show_nodes(&conf, o, &err), 0, "nodes");
    (void)end();
    ok(has("NODE  TYPE  TOTAL  FREE  STATE    PARTITIONS  USED BY        WHY"),
       "the columns");
    ok(has("n1    h100      8     1  up       batch*      0-6 mgpu 12.1"),
       "who uses what");
    ok(has("n2    h100      8     8  drained  batch*") && has("drained: fan"),
       "what somebody drained, and why");
    ok(has("n4    h100      8     8  down ") && has("down: power"),
       "what is down, as a daemon says that knows no more");
    ok(has("closed") && has("reservation maint"), "what is reserved");
    json_decref(o);
}

static void test_why(void)
{
    char text[2000];
    struct error err = ERROR_INIT;
    (void)snprintf(
        text, sizeof(text),
        "{\"job\":{\"id\":13,\"display_id\":\"13\",\"name\":\"wide\",\"user\":"
        "\"kyr\","
        "\"kind\":\"cv\",\"state\":\"QUEUED\",\"gpus_min\":2,"
        "\"gpus_max\":4,\"position\":3,\"start_estimate\":\"SOON\"},"
        "\"since\":\"SINCE\",\"for_s\":245,\"nodes_min\":1,\"nodes_max\":1,"
        "\"reasons\":[{\"text\":\"WaitingForGpus: needs 2, 1 free\"},"
        "{\"text\":\"Priority: 2 ahead\"},{\"text\":\"NodesDown: n\\u001b2\"}"
        "],\"basis\":\"all ends\",\"start_expected\":\"SOONER\","
        "\"expected_within_s\":150,\"expected_basis\":\"it goes "
        "on\",\"where\":{\"gpu_type\":\"h100\","
        "\"partition\":\"batch\",\"exclusive\":true},\"gpus_total\":14,"
        "\"gpus_free\":1,%s,\"holders\":[{\"job\":12,\"user\":\"anna\","
        "\"name\":\"mnist\",\"gpus\":7,\"place\":\"n1:0-6\"},{\"job\":12,"
        "\"display_id\":\"12_0\",\"gpus\":1,\"place\":\"n1:7\"}]}",
        nodes_text);
    json_t *o = load(text);
    begin();
    is_int(show_why(&conf, o, NULL, &err), 0, "why it waits");
    (void)end();
    ok(has("Job 13  wide  kyr/cv  QUEUED since SINCE (4:05)\n"), "since when");
    ok(has(" because    WaitingForGpus: needs 2, 1 free\n"
           " also       Priority: 2 ahead\n"
           "            NodesDown: n\\x1b2\n"),
       "the reasons, the first one first");
    ok(has(" needs      2..4 GPUs on 1 node, alone, partition batch, type "
           "h100\n"),
       "what it needs");
    ok(has(" may use    2 nodes with 14 GPUs, 1 free now; 2 nodes are down or "
           "drained\n"),
       "where it may be");
    ok(has(" queue      position 3\n"
           " may start  SOON,\n"
           "            if all ends\n"
           " expected   SOONER +-2 min,\n"
           "            if it goes on\n"),
       "when, and on which condition");
    ok(has("     12  anna  mnist     7  n1:0-6  no limit\n"), "who is there");
    ok(has("   12_0                  1  n1:7    no limit\n"), "by its name");
    ok(has("n2    h100"), "the nodes");
    json_decref(o);

    o = load("{\"job\":{\"id\":4,\"display_id\":\"4\",\"name\":\"m\",\"state\":"
             "\"TIMEOUT\","
             "\"exit_code\":124},\"since\":\"S\",\"reasons\":[{\"text\":"
             "\"time limit of 60 s reached\"}]}");
    json_t *full =
        load("{\"attempts\":[{\"attempt\":1,\"reason\":\"lost: fan\"},"
             "{\"attempt\":2,\"state\":\"TIMEOUT\"}]}");
    begin();
    is_int(show_why(&conf, o, full, &err), 0, "why it ended");
    (void)end();
    ok(has(" because    time limit of 60 s reached\n"
           " exit code  124: its time limit\n"),
       "the reason and the code in words");
    ok(has("lost: fan") && !strstr(shown, "needs"), "and each attempt");
    json_decref(o);
    json_decref(full);
}

static void test_allocator(void)
{
    static const char *const states[] = {
        "{\"name\":\"slurm\",\"is_ok\":true}",
        ("{\"name\":\"slurm\",\"is_ok\":false,\"since\":\"SINCE\","
         "\"why\":\"no answer\"}"),
        "{\"name\":\"local\",\"is_ok\":true}"};
    static const char *const want[] = {"| policy fifo | slurm ok\n",
                                       "| slurm unavailable since SINCE\n",
                                       "| policy fifo\n"};
    struct error err = ERROR_INIT;
    char text[300];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"policy\":\"fifo\",\"allocator\":\"slurm\","
                       "\"allocator_state\":%s,\"loop\":{\"callbacks\":1200,"
                       "\"longest_s\":0.0123}}",
                       states[i]);
        json_t *o = load(text);
        begin();
        is_int(show_queue(&conf, o, &err), 0, "a queue");
        (void)end();
        ok(has(want[i]), "says how the allocator is");
        begin();
        is_int(show_status(&conf, o, &err), 0, "a status");
        (void)end();
        ok(has("longest callback 12.3 ms of 1,200\n"),
           "has the loop's longest");
        ok((strstr(shown, "unavailable since SINCE: no answer\n") != NULL) ==
               (i == 1),
           "and why there is no allocator");
        json_decref(o);
    }
}

static void test_progress(void)
{
    json_t *o = load("{\"epoch\":1,\"epochs_total\":2,\"iteration\":120,"
                     "\"iterations_total\":314,\"loss\":0.5321,"
                     "\"t_iter_s\":0.032,\"eval_accuracy\":0.9612,"
                     "\"eta_s\":12}");
    char text[400];
    wait_progress_text(o, text, sizeof(text));
    is_str(text,
           "  epoch 1/2  iteration 120/314  loss 0.5321  31.2 it/s  left "
           "0:12  test accuracy 96.12 %",
           "progress in one line");
    json_decref(o);
    o = load("{\"iteration\":null,\"loss\":null}");
    wait_progress_text(o, text, sizeof(text));
    is_str(text, "", "nothing known, nothing said");
    json_decref(o);
    o = load("{\"epoch\":14,\"epochs_total\":null,\"eval_accuracy\":95.5}");
    wait_progress_text(o, text, sizeof(text));
    is_str(text, "  epoch 14  test accuracy 95.5",
           "a total that is unknown is not the epoch it is in");
    json_decref(o);
}

/* Which columns, and which row comes first. */
static void shown_as(const char *format, const char *sort, const char *want)
{
    json_t *o = load(queue_text);
    struct error err = ERROR_INIT;
    begin();
    conf.header = false;
    conf.format = format;
    conf.sort = sort;
    int rc = show_queue(&conf, o, &err);
    (void)end();
    is_str(rc < 0 ? err.msg : shown, want, format ? format : "default");
    json_decref(o);
}

static void text_of(const struct field *f, json_t *job,
                    char ret[COLUMN_TEXT_CAP])
{
    struct members m;
    json_members_of_json(job, &m);
    f->text(&m, ret, COLUMN_TEXT_CAP);
}

static void test_columns(void)
{
    struct columns c;
    struct error err = ERROR_INIT;
    shown_as("id,state,gpus", NULL, "12  RUNNING     3\n13  QUEUED   2..4\n");
    shown_as("gpus,id", "-id", "2..4  13\n   3  12\n");
    shown_as("name", "name", "mnist\nwide\n");
    shown_as("name", "-name", "wide\nmnist\n");
    shown_as("id", "-loss", "12\n13\n");
    shown_as("JOBID,TO LIMIT", "JOBID", "12  -\n13  -\n");
    shown_as("jobid,To Limit,GPUs", "-JobId", "13  -  2..4\n12  -     3\n");
    shown_as("id,ended", NULL, "12  -\n13  -\n");
    shown_as("id,stat", NULL, "no column 'stat'; did you mean 'state'?");
    shown_as("id", "xyz", "no column 'xyz'; see mgpu-stat -o help");
    shown_as("id", "timed", "no column 'timed'; did you mean 'TIME'?");
    shown_as("defa", NULL, "no column 'defa'; did you mean 'default'?");
    shown_as("id", "why",
             "rows are sorted by one column, and 'why' is a format of "
             "several: id,name,user,state,position,gpus,estimate,reason");
    shown_as("LONG", NULL, "no column 'LONG'; did you mean 'long'?");
    shown_as("\033[2J", NULL, "no column '\\x1b[2J'; see mgpu-stat -o help");
    shown_as("", NULL, "no columns; see mgpu-stat -o help");
    ok(columns_parse("long,why", &c, &err) == 0 && c.n == 27,
       "formats may be mixed");
    is_int(columns_parse("long,long", &c, &err), -1, "up to a point");
    /* Every field has something to say of every job. */
    json_t *jobs = load(queue_text), *none = json_object();
    char names[1024] = "", text[COLUMN_TEXT_CAP];
    FILE *help = fmemopen(names, sizeof(names), "w");
    columns_help(help);
    (void)fclose(help);
    ok(strstr(names, "  id          the job's number\n") != NULL, "the help");
    ok(columns_parse("long", &c, &err) == 0, "the long format");
    size_t said = 0;
    for (size_t i = 0; i < c.n; i++) {
        text_of(c.at[i], none, text);
        said += text[0] != '\0';
    }
    is_int((long long)said, (long long)c.n, "even of one that says nothing");
    json_decref(jobs);
    json_decref(none);
}

static void test_profile(void)
{
    json_t *o = load(
        "{\"columns\":[\"attempt\",\"rank\",\"epoch\",\"metric\",\"calls\","
        "\"total_s\",\"bytes\",\"sampled\"],\"rows\":["
        "[1,0,1,\"cudaLaunchKernel\",1000,0.5,null,0.25],"
        "[1,0,1,\"CUDA memcpy Host-to-Device\",10,1.5,3145728,0.25],"
        "[1,0,1,\"memory \\u001bplanned\",null,null,2048,null],"
        "[1,0,1,\"profiler\",20,0.0625,null,null],"
        "[1,1,1,\"cudaLaunchKernel\",3000,1.5,null,0.25],"
        "[2,0,1,\"cudaLaunchKernel\",7,0.1,null,1]]}");
    json_t *e = load("{\"columns\":[\"attempt\",\"epoch\",\"seconds\"],"
                     "\"rows\":[[1,1,10.0]]}");
    json_t *none = load("{\"columns\":[],\"rows\":[]}");
    struct error err = ERROR_INIT;
    begin();
    is_int(show_profile(&conf, o, e, &err), 0, "a profile");
    (void)end();
    ok(has("epoch 1 of attempt 1: 10.00 s, 2 ranks, scaled up from 25 % of the "
           "iterations, profiling took 0.062 s\n"),
       "an epoch, and how it was looked at");
    ok(has("cudaLaunchKernel            4,000         1.000  10.0 %    500 us"),
       "calls of all ranks, seconds of one, the share, each");
    ok(has("CUDA memcpy Host-to-Device     10         0.750   7.5 %  150.0 ms  "
           "3.0 MiB"),
       "bytes");
    ok(has("memory \\x1bplanned") && has("2.0 KiB"), "memory, escaped");
    ok(strstr(shown, "profiler") == NULL, "the profiler is in that line");
    ok(has("epoch 1 of attempt 2, 1 rank\n"), "an epoch that did not end");
    begin();
    is_int(show_profile(&conf, none, NULL, &err), 0, "no profile");
    (void)end();
    ok(has("train.profile"), "says what is missing");
    json_t *odd = load("{\"columns\":[\"attempt\",\"epoch\"],\"rows\":[[null,"
                       "1],[1e300,1],[1e300,1]]}");
    begin();
    is_int(show_profile(&conf, odd, NULL, &err), 0, "attempts that are none");
    (void)end();
    ok(has("attempt -1"), "are shown, and it ends");
    json_decref(odd);
    json_decref(o);
    json_decref(e);
    json_decref(none);
}

int main(void)
{
    test_queue();
    test_eta();
    test_profile();
    test_columns();
    test_command();
    test_job();
    test_pending();
    test_suspended();
    test_nodes();
    test_why();
    test_allocator();
    test_progress();
    free(shown);
    return tap_done();
}
