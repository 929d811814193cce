/* helper_wire.c - libFuzzer: a line between daemon and helper, either way.
 *
 * What is accepted can be written again, and is then read as the same: the
 * text of the second writing equals that of the first.
 */
#include "slurm/protocol/helper_wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct buf *a, const struct buf *b)
{
    if (a->len == 0 || a->len != b->len || memcmp(a->data, b->data, a->len))
        abort();
}

static void command(const char *line, size_t len)
{
    struct helper_cmd c, d;
    struct buf a = BUF_INIT, b = BUF_INIT;
    if (helper_cmd_parse(line, len, &c, NULL) < 0)
        return;
    if (helper_cmd_encode(&c, &a, NULL) < 0 ||
        helper_cmd_parse(a.data, a.len - 1, &d, NULL) < 0 ||
        helper_cmd_encode(&d, &b, NULL) < 0)
        abort();
    same(&a, &b);
    helper_cmd_clear(&c);
    helper_cmd_clear(&d);
    buf_clear(&a);
    buf_clear(&b);
}

static void news(const char *line, size_t len)
{
    struct helper_news n, m;
    struct buf a = BUF_INIT, b = BUF_INIT;
    if (helper_news_parse(line, len, &n, NULL) < 0)
        return;
    if (helper_news_encode(&n, &a, NULL) < 0 ||
        helper_news_parse(a.data, a.len - 1, &m, NULL) < 0 ||
        helper_news_encode(&m, &b, NULL) < 0)
        abort();
    same(&a, &b);
    helper_news_clear(&n);
    helper_news_clear(&m);
    buf_clear(&a);
    buf_clear(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    command((const char *)data, size);
    news((const char *)data, size);
    return 0;
}
