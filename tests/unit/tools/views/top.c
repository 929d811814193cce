/* top.c - the cluster on one screen: what is said of it, and how it is drawn
 * in the room that there is. */
#include "scheduler/tools/views/top.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static char *shown;
static size_t shown_len;

static json_t *load(const char *text)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    if (!o)
        tap_diag("fixture: line %d: %s", why.line, why.text);
    return o;
}

static const char queue_text[] =
    "{\"schema\":\"mgpu.queue/1\",\"generated\":\"G\",\"cluster\":\"lo\","
    "\"policy\":\"fifo\",\"slots_total\":6,\"slots_free\":2,\"running\":2,"
    "\"queued\":3,\"jobs\":["
    "{\"id\":5,\"display_id\":\"5\",\"name\":\"behind\",\"user\":\"lu\","
    "\"state\":\"QUEUED\",\"gpus_min\":4,\"gpus_max\":4,\"position\":2,"
    "\"reason\":\"Priority: 1 ahead\"},"
    "{\"id\":12,\"display_id\":\"12\",\"name\":\"mnist\",\"user\":\"anna\","
    "\"state\":\"RUNNING\",\"gpus\":3,\"gpus_min\":3,\"place\":\"n1:0,2-3\","
    "\"iteration\":1200,\"iterations_total\":8622,\"t_iter_s\":0.5,"
    "\"loss\":0.874,\"elapsed_s\":600,\"eta_s\":3711},"
    "{\"id\":13,\"display_id\":\"13\",\"name\":\"ha\\u001bm\",\"user\":\"kyr\","
    "\"state\":\"STARTING\",\"gpus\":1,\"gpus_min\":1,\"place\":\"n2:1\"},"
    "{\"id\":14,\"display_id\":\"14\",\"name\":\"held\",\"user\":\"kyr\","
    "\"state\":\"HELD\",\"gpus_min\":1,\"reason\":\"Held: by its user\"},"
    "{\"id\":15,\"display_id\":\"15\",\"name\":\"first\",\"user\":\"lu\","
    "\"state\":\"QUEUED\",\"gpus_min\":4,\"gpus_max\":4,\"position\":1,"
    "\"start_in_s\":120,\"reason\":\"WaitingForGpus: needs 4, 2 free\"},"
    "{\"id\":11,\"display_id\":\"11\",\"name\":\"over\",\"user\":\"kyr\","
    "\"state\":\"FAILED\",\"place\":\"n2:0\"}]}";

static const char gpus_text[] =
    "{\"schema\":\"mgpu.gpus/1\",\"nodes\":["
    "{\"name\":\"n1\",\"gpu_type\":\"h100\",\"gpus_from\":0,\"gpus_total\":4,"
    "\"is_up\":true},{\"name\":\"n2\",\"gpu_type\":\"a100\",\"gpus_from\":0,"
    "\"gpus_total\":2,\"is_up\":false}],\"holds\":["
    "{\"job\":12,\"display_id\":\"12\",\"user\":\"anna\",\"name\":\"mnist\","
    "\"node\":\"n1\",\"gpus\":[0,2,3],\"to\":null,\"computing\":0.5},"
    "{\"job\":9,\"display_id\":\"9\",\"user\":\"eve\",\"name\":\"gone\","
    "\"node\":\"n1\",\"gpus\":[1],\"to\":\"T\",\"computing\":0.9},"
    "{\"job\":8,\"display_id\":\"8\",\"user\":\"eve\",\"name\":\"alien\","
    "\"node\":\"n2\",\"gpus\":[0],\"to\":null,\"computing\":null}]}";

static json_t *document(bool others)
{
    json_t *queue = load(queue_text), *gpus = load(gpus_text), *o = NULL;
    struct error err = ERROR_INIT;
    is_int(top_document(queue, gpus, others, &o, &err), 0, "a document");
    json_decref(queue);
    json_decref(gpus);
    return o;
}

static const char *draw(const json_t *o, int columns, int rows)
{
    struct error err = ERROR_INIT;
    free(shown);
    shown = NULL;
    struct show_conf conf = {
        .header = true,
        .style = {.ascii = true, .columns = columns, .rows = rows},
        .out = open_memstream(&shown, &shown_len)};
    is_int(show_top(&conf, o, &err), 0, "drawn");
    (void)fclose(conf.out);
    return shown;
}

static void test_screen(void)
{
    json_t *o = document(false);
    is_str(draw(o, 80, 24),
           "lo  6 GPUs or slots: 4 allocated, 2 idle | 2 running, 3 queued | "
           "policy "
           "fifo\n"
           "GPU   TYPE  BUSY                     NOW\n"
           "n1:0  h100  ########........   50 %  12 anna mnist\n"
           "n1:1  h100                           free\n"
           "n1:2  h100  ########........   50 %  12 anna mnist\n"
           "n1:3  h100  ########........   50 %  12 anna mnist\n"
           "n2:0  a100                           down\n"
           "n2:1  a100  -                        13 kyr ha\\x1bm\n"
           "\n"
           "JOBID  NAME     USER  GPUS         STEP  IT/S   LOSS   TIME      "
           "ETA\n"
           "   12  mnist    anna     3  1,200/8,622  2.00  0.874  10:00  "
           "1:01:51\n"
           "   13  ha\\x1bm  kyr      1            -     -      -      -       "
           " -\n"
           "\n"
           "JOBID  NAME    USER  ST  GPUS  ETA  REASON\n"
           "   15  first   lu    PD     4  ~2m  WaitingForGpus: needs 4, 2 "
           "free\n"
           "    5  behind  lu    PD     4    -  Priority: 1 ahead\n"
           "   14  held    kyr   H      1    -  Held: by its user\n",
           "GPUs, what runs, what waits in its order");
    json_decref(o);
}

static void test_others(void)
{
    json_t *o = document(true);
    const json_t *gpu = json_array_get(json_object_get(o, "gpus"), 4);
    is_int((int)field_int(gpu, "job", 0), 8, "who is not in the queue");
    is_str(field_str(gpu, "user"), "eve", "  is known");
    gpu = json_array_get(json_object_get(o, "gpus"), 1);
    ok(json_is_null(json_object_get(gpu, "job")), "who has gone is not shown");
    is_str(field_str(o, "schema"), "mgpu.top/1", "a schema of its own");
    json_decref(o);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* However many there are, all three have their place. */
static void test_room(void)
{
    json_t *queue = load(queue_text), *gpus = load(gpus_text), *o = NULL;
    json_t *jobs = json_object_get(queue, "jobs");
    json_t *nodes = json_object_get(gpus, "nodes");
    struct error err = ERROR_INIT;
    char name[16];
    bool fit = true;
    for (int i = 0; i < 40; i++) {
        json_t *job = json_deep_copy(json_array_get(jobs, (size_t)i % 2));
        json_t *node = json_deep_copy(json_array_get(nodes, 0));
        (void)snprintf(name, sizeof(name), "x%d", i);
        (void)json_object_set_new(job, "place", json_string("x0:0"));
        (void)json_array_append_new(jobs, job);
        (void)json_object_set_new(node, "name", json_string(name));
        (void)json_array_append_new(nodes, node);
    }
    is_int(top_document(queue, gpus, false, &o, &err), 0, "much of it");
    for (int rows = 14; rows < 60; rows++) {
        (void)draw(o, 80, rows);
        fit = fit && lines_of(shown) <= rows - 2;
        fit = fit && strstr(shown, "nodes more") &&
              strstr(shown, "jobs more") && strstr(shown, "mnist") &&
              strstr(shown, "WaitingForGpus");
    }
    ok(fit, "fits any screen");
    (void)draw(o, 80, 24);
    ok(strstr(shown, "n1    h100    3/4  ########........   50 %  12 anna\n") !=
           NULL,
       "too many GPUs are a line for each node");
    json_decref(o);
    json_decref(queue);
    json_decref(gpus);
}

int main(void)
{
    test_screen();
    test_others();
    test_room();
    free(shown);
    return tap_done();
}
