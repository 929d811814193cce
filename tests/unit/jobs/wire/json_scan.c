/* json_scan.c - what is read where it stands is what the JSON library reads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/base/rng.h"
#include "jobs/wire/json_scan.h"
#include "tests/tap.h"

/* As the engine writes them, and what it never does. */
static const char *const texts[] = {
    "{\"native_id\":\"1234\",\"place\":\"n1:0,1 n2:0\",\"nodes\":2,\"gpus\":3}",
    "{\"exit_code\":0,\"retry\":1,\"why\":\"it ended\",\"loss\":0.25,"
    "\"t_iter\":0.12345678901234567,\"iteration\":5000000000}",
    "{\"stall\":{\"stall_factor\":0.0,\"stall_min_s\":1e-3,\"ends\":false},"
    "\"a\":[],\"b\":{},\"c\":[1,[2,{\"d\":\"\\\"\\n\\\\\"}]],\"e\":null,"
    "\"f\":true,\"grace_s\":120.0,\"n\":-0,\"x\":-0.5,\"y\":1E+30}",
    "{\"a\":1,\"a\":\"x\",\"a\":-17}",
    "{\"n\xc3\xa4me\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}",
    "{\"spec\":{\"lr\":1e-3,\"name\":\"a,b\",\"command\":[\"sh\",\"-c\",\"echo "
    "\\\"x\\\"\"],\"labels\":{\"k\":\"v\"},\"n\":null},\"user\":\"anna\"}",
};
enum { N_TEXTS = sizeof(texts) / sizeof(texts[0]), ROUNDS = 20000 };

/* To the bit. */
static bool is_number(const struct member *m, const json_t *v)
{
    double x = json_number_value(v);
    return m->x == x && !signbit(m->x) == !signbit(x);
}

static bool is_same(const struct member *m, json_t *v)
{
    switch (m->kind) {
    case MEMBER_NONE:
        return v == NULL;
    case MEMBER_NULL:
        return json_is_null(v);
    case MEMBER_FALSE:
        return json_is_false(v);
    case MEMBER_TRUE:
        return json_is_true(v);
    case MEMBER_INT:
        return json_is_integer(v) && is_number(m, v) &&
               m->n == json_integer_value(v);
    case MEMBER_REAL:
        return json_is_real(v) && is_number(m, v) && m->n == 0;
    case MEMBER_TEXT:
        return json_is_string(v) && m->len == json_string_length(v) &&
               memcmp(m->text, json_string_value(v), m->len) == 0;
    case MEMBER_TREE: {
        json_t *tree = json_member_tree(m);
        bool is = tree && json_equal(tree, v);
        json_decref(tree);
        return is;
    }
    }
    return false;
}

static bool has_all(const struct members *m, json_t *o)
{
    const char *key;
    json_t *v;

    json_object_foreach(o, key, v)
    {
        const struct member one = members_get(m, key);
        if (!is_same(&one, v))
            return false;
    }
    for (size_t i = 0; i < m->n; i++)
        if (!json_object_getn(o, m->at[i].key, m->at[i].len))
            return false;
    return true;
}

/* Whether both read the same. *ret_bare: without the library. */
static bool agree(const char *text, bool *ret_bare)
{
    struct members m;
    json_error_t bad;
    json_t *o = json_loads(text, 0, &bad);
    int rc = json_members_read(text, &m);
    bool is = (rc == 0) == json_is_object(o);

    *ret_bare = rc == 0 && !m.o;
    if (rc == 0)
        is = is && has_all(&m, o);
    if (rc == 0)
        json_members_clear(&m);
    json_decref(o);
    const char *end = json_members_end(text);
    if (end) {
        o = json_loads(text, JSON_DISABLE_EOF_CHECK, &bad);
        is = is && json_is_object(o) && bad.position == end - text;
        json_decref(o);
    }
    return is;
}

static void test_agree(void)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        bool is_bare = false;
        ok(agree(texts[i], &is_bare), "text %zu: as the library reads it", i);
        ok(is_bare == (strchr(texts[i], '\\') == NULL || i == 2 || i == 5),
           "  without it");
    }
}

/* One to three bytes of a text become others, that a JSON text is made of. */
static void change(struct rng *r, char *text)
{
    static const char bytes[] =
        "{}[]:,\"\\ntfu0123456789-+.eE aAb/\x01\x7f\xc3\xa4\xff\n";
    size_t len = strlen(text);
    for (uint32_t n = 1 + rng_u32(r) % 3; n > 0; n--)
        text[rng_u32(r) % len] = bytes[rng_u32(r) % sizeof(bytes)];
}

static void test_changed(void)
{
    struct rng r;
    int n_bad = 0, n_bare = 0, n_end = 0;

    rng_seed(&r, 7);
    for (int i = 0; i < ROUNDS; i++) {
        char *text = strdup(texts[i % N_TEXTS]);
        bool is_bare = false;
        change(&r, text);
        if (!agree(text, &is_bare) && n_bad++ == 0)
            tap_diag("not as the library: %s", text);
        n_bare += is_bare;
        n_end += json_members_end(text) != NULL;
        free(text);
    }
    ok(n_bad == 0, "%d changed texts are read as the library does", ROUNDS);
    ok(n_bare > ROUNDS / 20 && n_end > ROUNDS / 20 && n_bare < ROUNDS / 2,
       "  %d of them without it", n_bare);
}

/* Deeper, longer and more than is read without the library. */
static void test_bounds(void)
{
    static const char *const odd[] = {
        "{\"a\":123456789012345678}",
        "{\"a\":1234567890123456789}",
        "{\"a\":12345678901234567890}",
        "{\"a\":-9223372036854775808}",
        "{\"a\":1e99}",
        "{\"a\":1e100}",
        "{\"a\":1e400}",
        "{\"a\":0.1234567890123456789012345678}",
        "{\"a\":0.12345678901234567890123456789012345}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":-}",
        "{\"a\":nullx}",
        "{\"a\":1,}",
        "{,}",
        "{}",
        "{\"a\":1} ",
        "{\"a\":1}x",
        "{\"a\":{}}",
        "[1]",
        "",
        "{\"\":1}",
        "{\"a\":\"\xc3\xa4\"}",
        "{\"a\":\"\\u0041\"}",
        "{\"a\":[\"\\u0000\"]}",
    };
    char deep[400], *many = malloc(4000);
    size_t at = 1;
    bool is_bare = false;

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        ok(agree(odd[i], &is_bare), "%s", odd[i]);
    for (int depth = 30; depth < 36; depth++) {
        (void)snprintf(deep, sizeof(deep), "{\"a\":%.*s%.*s}", depth,
                       "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", depth,
                       "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
        ok(agree(deep, &is_bare), "%d deep", depth);
    }
    ok(!is_bare, "  at last by the library");
    many[0] = '{';
    for (int i = 0; i < MEMBERS_MAX; i++)
        at += (size_t)snprintf(many + at, 4000 - at, "\"k%d\":%d,", i, i);
    many[at - 1] = '}';
    ok(agree(many, &is_bare) && is_bare, "%d members", MEMBERS_MAX);
    (void)snprintf(many + at - 1, 4000 - at, ",\"more\":1}");
    ok(agree(many, &is_bare) && !is_bare, "  one more is the library's");
    free(many);
}

static void test_of(void)
{
    struct members m, in;
    bool is_ok = json_members_read(texts[2], &m) == 0;
    const struct member stall = members_get(&m, "stall");
    const struct member list = members_get(&m, "c"), none = {.len = 0};

    is_ok = is_ok && json_members_of(&stall, &in) == 0;
    ok(is_ok && json_members_has(&in, "ends", MEMBER_FALSE) &&
           json_members_has(&in, "stall_min_s", MEMBER_REAL) && !in.o,
       "what a member's own object says");
    json_members_clear(&in);
    ok(json_members_of(&list, &in) < 0 && json_members_of(&none, &in) < 0,
       "  a list says nothing, nor does what is not there");
    json_members_clear(&m);
    is_ok = json_members_read("{\"a\":\"123\",\"b\":7}", &m) == 0;
    const struct member a = members_get(&m, "a"), b = members_get(&m, "b");
    char *text = json_member_dup(&a);
    ok(is_ok && text && strcmp(text, "123") == 0, "a text of one's own");
    ok(!json_member_dup(&b) && !json_member_tree(&a),
       "  a number is none, nor a tree");
    free(text);
    json_members_clear(&m);
}

/* One behind the other, as in a list. */
static void test_next(void)
{
    static const char list[] = "{\"a\":1},{\"a\": 2}{\"a\":\"\\n\"}]";
    const char *p = list, *end = list + sizeof(list) - 1;
    struct members m;
    bool is_ok = json_members_read_next(p, end, &m, &p) == 0;
    ok(is_ok && !m.o && members_get(&m, "a").n == 1 && p == list + 7,
       "the first of a list");
    json_members_clear(&m);
    is_ok = json_members_read_next(p + 1, end, &m, &p) == 0;
    ok(is_ok && m.o && members_get(&m, "a").n == 2 && p == list + 16,
       "  the next, by the library");
    json_members_clear(&m);
    is_ok = json_members_read_next(p, end, &m, &p) == 0;
    ok(is_ok && m.o && *p == ']', "  the last, with an escape");
    json_members_clear(&m);
    ok(json_members_read_next(p, end, &m, &p) < 0 &&
           json_members_read_next(end, end, &m, &p) < 0,
       "  and no more");
}

/* As of what follows a text that is known. */
static void test_rest(void)
{
    struct members m;
    ok(json_members_read_rest(",\"a\":1}", &m) == 0 && !m.o &&
           members_get(&m, "a").n == 1,
       "the rest of an object");
    json_members_clear(&m);
    ok(json_members_read_rest(", \"a\":1}", &m) == 0 && m.o &&
           members_get(&m, "a").n == 1,
       "  by the library");
    json_members_clear(&m);
    ok(json_members_read_rest(",\"a\":1", &m) < 0 &&
           json_members_read_rest("\"a\":1}", &m) < 0 &&
           json_members_read_rest("", &m) < 0,
       "  that is none");
}

static void add_digits(struct buf *b, struct rng *r, uint32_t n)
{
    (void)!buf_addf(b, NULL, "%u", 1 + rng_u32(r) % 9);
    for (; n > 1; n--)
        (void)!buf_addf(b, NULL, "%u", rng_u32(r) % 10);
}

/* Of so many digits that the last bit of what stands behind the point is in
 * doubt. */
static void test_reals(void)
{
    struct rng r;
    int n_bad = 0;
    rng_seed(&r, 5);
    for (int i = 0; i < 10 * ROUNDS; i++) {
        struct buf b = BUF_INIT;
        struct members m;
        double x = 0;
        (void)!buf_addstr(&b, i % 2 ? "{\"x\":-" : "{\"x\":", NULL);
        add_digits(&b, &r, 1 + rng_u32(&r) % 16);
        (void)!buf_addstr(&b, ".", NULL);
        add_digits(&b, &r, 1 + rng_u32(&r) % 16);
        (void)!buf_addstr(&b, "}", NULL);
        if (json_members_read(buf_str(&b), &m) == 0)
            x = members_get(&m, "x").x;
        json_members_clear(&m);
        if (x != strtod(buf_str(&b) + strlen("{\"x\":"), NULL) && n_bad++ < 5)
            tap_diag("%s: %.17g", buf_str(&b), x);
        buf_clear(&b);
    }
    is_int(n_bad, 0, "numbers are to the bit what the library reads");
}

int main(void)
{
    test_agree();
    test_reals();
    test_changed();
    test_bounds();
    test_of();
    test_next();
    test_rest();
    return tap_done();
}
