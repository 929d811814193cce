/* show_scaling.c - what further GPUs brought: mgpu-stat --scaling. */
#include "tests/unit/tools/views/shown.h"

static void test_scaling(void)
{
    struct error err = ERROR_INIT;
    json_t *o =
        load("{\"columns\":[\"class\",\"gpus\",\"nodes\",\"t_iter\","
             "\"samples_per_s\",\"speedup\",\"efficiency\",\"n\",\"basis\","
             "\"t_iter_sd\",\"runs\",\"gpu_hours_per_million\"],\"rows\":["
             "[\"cv\\u001b\",1,1,0.2,320,1.0,1.0,90,\"measured\",0.0125,3,"
             "0.868],"
             "[\"cv\\u001b\",2,1,0.25,512,1.6,0.8,90,\"measured\",0.5,1,12.34],"
             "[\"cv\\u001b\",4,2,0.4,640,2.0,0.5,90,\"predicted\",null,1,"
             "null],"
             "[\"other\",1,1,0.2,null,null,null,5,\"measured\",0,1,null]]}");
    begin();
    is_int(show_scaling(&conf, o, &err), 0, "sizes");
    (void)end();
    static const char want[] =
        "cv\\x1b\n"
        "GPUS  NODES            IT TIME  SAMPLES/S  SPEED-UP    EFF  GPU-H  "
        "+1 GPU  RUNS   N  BASIS\n"
        "   1      1   200.0 +- 12.5 ms        320      1.00  100 %  0.868  "
        "     -     3  90  measured\n"
        "   2      1  250.0 +- 500.0 ms        512      1.60   80 %   12.3  "
        "  +192     1  90  measured\n"
        "   4      2           400.0 ms        640      2.00   50 %      -  "
        "   +64     1  90  predicted\n"
        "\nother  measured\n";
    ok(strncmp(shown, want, strlen(want)) == 0, "a table for each class");
    if (strncmp(shown, want, strlen(want)) != 0)
        tap_diag("%s", shown);
    ok(strstr(shown, "adds in samples/s.\n") != NULL, "in samples");
    json_decref(o);
}

/* Sizes of two types stand in one reply in the order of their GPUs. */
static void test_scaling_types(void)
{
    struct error err = ERROR_INIT;
    json_t *o = load("{\"columns\":[\"class\",\"gpus\",\"nodes\",\"basis\","
                     "\"gpu_type\"],\"rows\":["
                     "[\"cv\",1,1,\"measured\",\"a100\"],"
                     "[\"cv\",1,1,\"measured\",\"h100\"],"
                     "[\"cv\",2,1,\"measured\",\"a100\"]]}");
    begin();
    is_int(show_scaling(&conf, o, &err), 0, "sizes of two types");
    (void)end();
    const char *a = strstr(shown, "cv  a100  measured\n");
    const char *h = strstr(shown, "\ncv  h100  measured\n");
    ok(a == shown && h && h > a, "a table for each type");
    ok(a && strstr(a, "\n   2      1") && strstr(a, "\n   2      1") < h,
       "  with all of its sizes");
    json_decref(o);
}

/* A program stands behind the class, once it has a second one. */
static void test_scaling_program(void)
{
    for (int classes = 1; classes <= 2; classes++) {
        struct error err = ERROR_INIT;
        char reply[300];
        (void)snprintf(reply, sizeof(reply),
                       "{\"columns\":[\"class\",\"gpus\",\"nodes\",\"basis\","
                       "\"classes\"],\"rows\":["
                       "[\"command/a-1\",1,1,\"measured\",1],"
                       "[\"program/a-2\",1,1,\"measured\",%d]]}",
                       classes);
        json_t *o = load(reply);
        begin();
        ok(show_scaling(&conf, o, &err) == 0, "a program of %d", classes);
        (void)end();
        ok(strncmp(shown, "command/a-1  measured\n", 22) == 0,
           "  its class comes first");
        ok((strstr(shown, "\nprogram/a-2  measured\n") != NULL) ==
               (classes > 1),
           "  and it %s", classes > 1 ? "behind it" : "says no more");
        json_decref(o);
    }
}

static void test_scaling_text(void)
{
    struct error err = ERROR_INIT;
    json_t *o =
        load("{\"columns\":[\"class\",\"gpus\",\"nodes\",\"t_iter\","
             "\"samples_per_s\",\"speedup\",\"efficiency\",\"n\",\"basis\","
             "\"t_iter_sd\",\"runs\",\"gpu_hours_per_million\","
             "\"tokens_per_s\"],\"rows\":["
             "[\"llm/x\",1,1,0.2,10,1.0,1.0,90,\"measured\",0,3,27.7,5120],"
             "[\"llm/x\",2,1,0.2,20,2.0,1.0,90,\"measured\",0,3,27.7,"
             "10240]]}");
    begin();
    is_int(show_scaling(&conf, o, &err), 0, "sizes of a language model");
    (void)end();
    static const char want[] =
        "llm/x  measured\n"
        "GPUS  NODES          IT TIME  TOKENS/S  SPEED-UP    EFF  GPU-H  +1 GPU"
        "  RUNS   N\n"
        "   1      1  200.0 +- 0.0 ms      5120      1.00  100 %  0.054       -"
        "     3  90\n"
        "   2      1  200.0 +- 0.0 ms     10240      2.00  100 %  0.054   +5120"
        "     3  90\n";
    if (!ok(strncmp(shown, want, strlen(want)) == 0, "in tokens"))
        tap_diag("%s", shown);
    ok(strstr(shown, "hours of a million tokens, +1 GPU what each further GPU "
                     "adds in tokens/s.\n") != NULL,
       "which the note says");
    json_decref(o);
}

int main(void)
{
    test_scaling();
    test_scaling_types();
    test_scaling_program();
    test_scaling_text();
    free(shown);
    return tap_done();
}
