/* store_span.c - what every store promises (db/store.h) of spans: they are
 * there as they were written last, by id, and of many the last ones. */
#include <string.h>

#include "tests/contract/store_fixture.h"

static struct error err;

static void put(struct store *s, uint64_t id, double end_s)
{
    const struct store_span span = {.id = id,
                                    .begin_s = 100.5 * (double)id,
                                    .end_s = end_s,
                                    .is_synced = id % 2 == 0};
    if (s->ops->put_span(s, &span, &err) < 0)
        ok(false, "%s", err.msg);
}

static void test_order(struct fixture *fx)
{
    struct store_span got[STORE_SPANS_MAX];
    size_t n = 9;

    fx_begin(fx);
    is_int(fx->s->ops->spans(fx->s, got, &n, &err), 0, "a new store");
    is_int((long long)n, 0, "has none");
    put(fx->s, 1, 150.25);
    put(fx->s, 2, -7); /* the clock was wrong */
    put(fx->s, 1, 200);
    fx_reopen(fx);
    is_int(fx->s->ops->spans(fx->s, got, &n, &err), 0, "in the next life");
    is_int((long long)n, 2, "there are two");
    ok(got[0].id == 1 && got[0].begin_s == 100.5 && got[0].end_s == 200 &&
           !got[0].is_synced,
       "the first as it was written last");
    ok(got[1].id == 2 && got[1].begin_s == 201 && got[1].end_s == -7 &&
           got[1].is_synced,
       "the second");
    fx_end(fx);
}

static void test_many(struct fixture *fx)
{
    struct store_span got[STORE_SPANS_MAX];
    size_t n = 0;
    bool is_last = true;

    fx_begin(fx);
    for (uint64_t id = 1; id <= STORE_SPANS_MAX + 10; id++)
        put(fx->s, id, 1e6);
    is_int(fx->s->ops->spans(fx->s, got, &n, &err), 0, "of many");
    is_int((long long)n, STORE_SPANS_MAX, "some are kept");
    for (size_t i = 0; i < n; i++)
        is_last = is_last && got[i].id == i + 11;
    ok(is_last, "the last ones");
    fx_end(fx);
}

static void run(struct fixture *fx)
{
    test_order(fx);
    test_many(fx);
}

int main(void)
{
    return each_store(run);
}
