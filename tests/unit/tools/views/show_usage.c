/* show_usage.c - names in mgpu-stat --usage, from replies of the daemon. */
#include "scheduler/tools/views/show.h"

#include <string.h>

#include "tests/tap.h"
#include "tests/unit/tools/views/shown.h"

#define ROW(name, job_name)                                                  \
    "{\"name\":" name ",\"job_name\":" job_name                              \
    ",\"jobs\":1,\"failed\":0,\"gpu_hours\":1.0,\"measured_gpu_hours\":0.0," \
    "\"busy_gpu_hours\":null,\"mean_wait_s\":null}"
#define REPLY(rows) "{\"cluster\":\"c\",\"by\":\"class\",\"rows\":[" rows "]}"

/* The whole first column, with the spaces of a row as one. */
static void shows(const char *reply, const char *want, const char *what)
{
    json_t *o = load(reply);
    struct error err = ERROR_INIT;
    begin();
    conf.header = false;
    if (show_usage(&conf, o, &err) < 0)
        tap_diag("%s", err.msg);
    (void)end();
    ok(has(want), "%s", what);
    json_decref(o);
}

int main(void)
{
    shows(REPLY(ROW("\"command/sh-2f0c9e51a4b7d803\"", "\"resnet\"")),
          "command/sh resnet  ", "a command: its program and its newest job");
    shows(REPLY(ROW("\"command/sh-2f0c9e51a4b7d803\"", "null")), "command/sh  ",
          "  whose name is not known any more");
    shows(REPLY(ROW("\"command/sh-2f0c9e51a4b7d803\"", "\"a\"") "," ROW(
              "\"command/sh-77aa9e51a4b7d803\"",
              "\"a\"") "," ROW("\"command/sh-0000000000000000\"", "\"b\"")),
          "command/sh a #2f0c  ", "two of one name keep some digits");
    ok(has("command/sh a #77aa  "), "  each its own");
    ok(has("command/sh b  "), "  and no others do");
    shows(REPLY(ROW("\"cv/mobilenet_v2-1/c10/cuda\"", "\"mnist\"")),
          "cv/mobilenet_v2-1/c10/cuda  ", "a class of models has its own name");
    shows(REPLY(ROW("\"command/sh-2f0c9e51a4b7d80\"", "\"x\"")),
          "command/sh-2f0c9e51a4b7d80  ", "digits of another length are none");
    shows(REPLY(ROW("\"command/sh-2f0c9e51a4b7d80g\"", "\"x\"")),
          "command/sh-2f0c9e51a4b7d80g  ", "  nor are letters");
    shows(REPLY(ROW("null", "null")), "-  ", "those of other users");
    return tap_done();
}
