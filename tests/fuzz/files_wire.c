/* files_wire.c - libFuzzer: what the daemon sends for a user's file, and what
 * comes back. A request that is accepted is the one that would be written,
 * byte for byte: nothing in a packet is passed over.
 */
#include <stdlib.h>
#include <string.h>

#include "slurm/as_user/files_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(struct buf *b, const uint8_t *data, size_t size)
{
    if (b->len != size || memcmp(b->data, data, size) != 0)
        abort();
    buf_clear(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf b = BUF_INIT;
    struct files_req req;
    struct files_ans reply;

    if (files_req_parse(data, size, &req, NULL) == 0) {
        if (req.dir[0] != '/' || strstr(req.dir, "/../") ||
            strchr(req.name, '/') || files_req_encode(&req, &b, NULL) < 0)
            abort();
        same(&b, data, size);
    }
    if (files_ans_parse(data, size, &reply, NULL) == 0) {
        if (files_ans_encode(&reply, &b, NULL) < 0)
            abort();
        same(&b, data, size);
    }
    return 0;
}
