/* wire.c - libFuzzer: launch.json as a rank reads it.
 *
 * What is accepted can be written again, and is read back as the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct wire_launch *a, const struct wire_launch *b)
{
    if (a->job != b->job || a->attempt != b->attempt || a->nodes != b->nodes ||
        a->gpus_per_node != b->gpus_per_node ||
        a->heartbeat_s != b->heartbeat_s || strcmp(a->dir, b->dir) != 0 ||
        strcmp(a->job_dir, b->job_dir) != 0 || strcmp(a->url, b->url) != 0 ||
        strcmp(a->token, b->token) != 0 || strcmp(a->cluster, b->cluster) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire_launch first, again;
    struct buf spec = BUF_INIT, text = BUF_INIT;
    struct error err = ERROR_INIT;

    if (wire_launch_parse((const char *)data, size, &first, &err) < 0)
        return 0;
    if (spec_dump(&first.spec, &spec, &err) < 0 ||
        wire_launch_encode(&first, buf_str(&spec), &text, &err) < 0 ||
        wire_launch_parse(buf_str(&text), text.len, &again, &err) < 0)
        abort();
    same(&first, &again);
    wire_launch_clear(&again);
    wire_launch_clear(&first);
    buf_clear(&spec);
    buf_clear(&text);
    return 0;
}
