/* event_codec.c - details of events, read and written as in what was recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/events/event_codec.h"
#include "tests/recorded.h"
#include "tests/tap.h"

static void add(struct buf *ret, char *text)
{
    if (buf_addstr(ret, text ? text : "nothing", NULL) < 0)
        abort();
    free(text);
}

static void detail(const char *text, size_t len, struct buf *ret)
{
    struct error err = ERROR_INIT;
    struct detail d;
    char *again = NULL;
    (void)len;
    if (detail_decode(text, &d, &err) < 0 ||
        detail_encode(&d, &again, &err) < 0)
        recorded_error(ret, &err);
    else
        add(ret, again);
}

/* Read as the seventh job, the seventh of the sweep of the first. */
static void submit(const char *text, size_t len, struct buf *ret)
{
    static struct job job;
    struct error err = ERROR_INIT;
    struct texts own = {.spec = NULL};
    char *again = NULL;
    (void)len;
    job = (struct job){.id = 7};
    int rc = submit_decode(text, NULL, &job, &own, &err);
    job.spec = own.spec;
    job.key = own.key;
    job.dir = own.dir;
    job.rules = own.rules;
    if (rc < 0 || submit_encode(&job, own.class, own.program, &again, &err) < 0)
        recorded_error(ret, &err);
    else
        add(ret, again);
    texts_clear(&own);
}

/* What is not text when it is written. */
static void test_clean(void)
{
    static const struct {
        const char *from, *to;
    } texts[] = {
        {"\xff\xc3\xa9", "{\"held\":\"?\xc3\xa9\"}"},
        {"a\x1b\x7f\"\\", "{\"held\":\"a??\\\"\\\\\"}"},
        {"\xe9\xc0\x80", "{\"held\":\"???\"}"},
        {"\xed\xa0\x80", "{\"held\":\"???\"}"},
        {"0123456789abc\xf0\x9f\x98", "{\"held\":\"0123456789abc??\"}"},
        {"0123456789abcd\xc3\xa9", "{\"held\":\"0123456789abcd?\"}"},
        {"", "nothing"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct detail d = DETAIL_INIT;
        struct buf got = BUF_INIT;
        char *text = NULL;
        memcpy(d.held, texts[i].from,
               strnlen(texts[i].from, sizeof(d.held) - 1));
        is_int(detail_encode(&d, &text, NULL), 0, "encode");
        add(&got, text);
        is_str(buf_str(&got), texts[i].to, "only text is written");
        buf_clear(&got);
    }
}

int main(void)
{
    recorded("event_detail", 26, detail);
    recorded("event_submit", 26, submit);
    test_clean();
    return tap_done();
}
