/* show_gpus.c - who had which GPU when, as mgpu-stat --gpus draws it. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/views/show.h"
#include "tests/tap.h"

/* Sixty minutes, sixty marks: job 7 had GPU 0 for the first half and half a
 * minute more, job 8 has both since the last quarter, job 9 had them before
 * midnight. */
static const char reply_text[] =
    "{\"cluster\":\"c\\u001b\",\"since\":\"2026-11-21T00:00:00.000Z\","
    "\"until\":\"2026-11-21T01:00:00.000Z\",\"nodes\":[{\"name\":\"n1\","
    "\"gpu_type\":\"h100\",\"gpus_total\":2,\"is_up\":true},{\"name\":\"n2\","
    "\"gpu_type\":\"h100\",\"gpus_from\":4,\"gpus_total\":1,\"is_up\":false}],"
    "\"holds\":["
    "{\"job\":7,\"display_id\":\"7\",\"name\":\"early\",\"user\":\"anna\","
    "\"attempt\":1,\"node\":\"n1\",\"gpus\":[0],"
    "\"from\":\"2026-11-21T00:00:00.000Z\",\"to\":\"2026-11-21T00:30:30.000Z\","
    "\"computing\":0.9},"
    "{\"job\":9,\"display_id\":\"8_1\",\"name\":\"late\",\"user\":\"kyr\","
    "\"attempt\":2,\"node\":\"n1\",\"gpus\":[0,1],"
    "\"from\":\"2026-11-21T00:45:00.000Z\",\"to\":null,\"computing\":null},"
    "{\"job\":2,\"display_id\":\"2\",\"name\":\"night\",\"user\":\"lu\","
    "\"attempt\":1,\"node\":\"n3\",\"gpus\":[0,1,2,5],"
    "\"from\":\"2026-11-20T23:10:00.000Z\",\"to\":\"2026-11-21T00:00:00.000Z\","
    "\"computing\":0.5}]}";

static char *shown;

static void draw(const char *text, int columns, bool ascii)
{
    size_t len;
    struct error err = ERROR_INIT;
    json_t *o = json_loads(text, 0, NULL);
    free(shown);
    struct show_conf conf = {.header = true,
                             .style = {.columns = columns, .ascii = ascii},
                             .out = open_memstream(&shown, &len)};
    is_int(show_gpus(&conf, o, &err), 0, "drawn");
    (void)fclose(conf.out);
    json_decref(o);
}

static bool has(const char *needle)
{
    bool yes = strstr(shown, needle) != NULL;
    if (!yes)
        tap_diag("'%s' is not in:\n%s", needle, shown);
    return yes;
}

static int count(const char *needle)
{
    int n = 0;
    for (const char *p = shown; (p = strstr(p, needle)); p++)
        n++;
    return n;
}

static bool is_narrow(size_t columns)
{
    for (const char *p = shown; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (strcspn(p, "\n") > columns)
            return false;
    return true;
}

int main(void)
{
    (void)setlocale(LC_ALL, "C.UTF-8");
    draw(reply_text, 0, true);
    ok(has("c\\x1b  from 2026-11-21T00:00:00 to 2026-11-21T01:00:00 UTC, one "
           "bar = 1:00"),
       "which time, and what a bar is");
    ok(has("n1:0  h100   76 %       90 %  ##############################"
           "+..............###############  8_1 kyr\n"),
       "a GPU: held, computing where known, its course, who has it");
    ok(has("n1:1  h100   25 %          -  "
           ".............................................###############  8_1"),
       "another, of which nothing is known");
    ok(has("n2:4  h100    0 %          -  ......") && has("  down\n"),
       "one of a node that is down");
    ok(has("  7  anna  early  n1:0      00:00:00     00:30:30  30:30       90 "
           "%"),
       "who had it, from when to when");
    ok(has("  8_1  kyr   late   n1:0-1    00:45:00     now       15:00         "
           " "
           "-"),
       "or has it");
    ok(has("    2  lu    night  n3:0-2,5  11-20 23:10  00:00:00   0:00       "
           "50 "
           "%"),
       "another day, and a node that is gone");
    draw(reply_text, 0, false);
    ok(has("██████████████████████████████▅··············███████████████"),
       "in UTF-8");
    draw(reply_text, 80, true);
    ok(is_narrow(80), "80 columns hold it");
    draw("{\"since\":\"2026-11-21T00:00:00Z\",\"until\":\"2026-11-21T00:00:"
         "00Z\","
         "\"nodes\":[{\"name\":\"n1\",\"gpus_total\":1,\"is_up\":true}],"
         "\"holds\":[]}",
         40, true);
    ok(has("free\n") && !has("JOBID"), "no time, no jobs");
    draw("{\"since\":\"2026-11-21T00:00:00Z\",\"until\":\"2026-11-21T01:00:"
         "00Z\",\"nodes\":[{\"name\":\"n1\",\"gpus_total\":2,\"is_up\":"
         "false,\"state\":\"draining\"},{\"name\":\"n2\",\"gpus_total\":1,"
         "\"is_up\":false,\"state\":\"drained\"},{\"name\":\"n3\","
         "\"gpus_total\":2,\"is_up\":true,\"state\":\"up\",\"drained\":[1]}],"
         "\"holds\":[{\"job\":7,\"display_id\":\"7\",\"user\":\"anna\","
         "\"node\":\"n1\",\"gpus\":[0],\"from\":"
         "\"2026-11-21T00:00:00.000Z\",\"to\":null}]}",
         0, true);
    ok(has("7 anna, drained\n"), "held, on a node that is drained");
    ok(has("n1:1  ") && has("n2:0  ") && has("n3:0  ") && has("n3:1  "),
       "idle ones");
    is_int(count(" drained\n"), 4, "  there, and one that failed itself");
    is_int(count(" free\n"), 1, "  and one as it should be");
    free(shown);
    return tap_done();
}
