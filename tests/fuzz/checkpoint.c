/* checkpoint.c - libFuzzer: state.json of a checkpoint. The checksum that it
 * has of itself is put right first: damage is found by that, a forgery is not.
 * What is accepted is possible, and is read as the same again.
 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/checkpoint/checkpoint_internal.h"
#include "worker/checkpoint/crc64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t len)
{
    struct checkpoint_state s, again;
    uint64_t crc[CKPT_STATE] = {0}, crcs[CKPT_STATE] = {0};
    struct buf one = BUF_INIT, two = BUF_INIT;
    struct error err = ERROR_INIT;
    if (checkpoint_decode(text, len, &s, crc, &err) < 0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0')
            abort();
        return;
    }
    if (s.iteration < 0 || s.updates < 0 || s.epoch < 1 || s.batch < 0 ||
        s.ranks < 1 || s.global_batch < 1 || s.tokens < 0 ||
        s.counted > (s.tokens > 0 ? s.tokens : s.samples) ||
        !(s.loss_scale.scale > 0))
        abort();
    if (checkpoint_encode(&s, crc, &one, &err) < 0 ||
        checkpoint_decode(one.data, one.len, &again, crcs, &err) < 0 ||
        checkpoint_encode(&again, crcs, &two, &err) < 0 ||
        strcmp(one.data, two.data) != 0)
        abort();
    buf_clear(&one);
    buf_clear(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char key[] = ",\"crc64\":\"";
    const char *text = (const char *)data;
    const char *own = memmem(data, size, key, sizeof(key) - 1);
    struct buf b = BUF_INIT;
    check(text, size);
    size_t n = own ? (size_t)(own - text) : size;
    if (buf_add(&b, text, n, NULL) < 0 ||
        buf_addf(&b, NULL, "%s%016" PRIx64 "\"}\n", key, crc64(0, text, n)) < 0)
        abort();
    check(b.data, b.len);
    buf_clear(&b);
    return 0;
}
