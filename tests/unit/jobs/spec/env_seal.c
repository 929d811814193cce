/* env_seal.c - what is sealed is opened by who has the key, under its name, and
 * is nothing else; which values are. */
#include "jobs/spec/env_seal.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/spec/secrets_file.h"
#include "tests/tap.h"

static const char id[SEAL_ID_CAP] = "0123456789abcdef";
static const unsigned char key[SEAL_KEY_BYTES] =
    "the key of this test, 32 bytes.";

static struct spec_map env_of(const char *const (*pairs)[2], size_t n)
{
    struct spec_map m = {calloc(n, sizeof(*m.pairs)), n};
    for (size_t i = 0; i < n; i++)
        m.pairs[i] =
            (struct spec_pair){strdup(pairs[i][0]), strdup(pairs[i][1])};
    return m;
}

static const char *value_of(const struct spec_map *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->pairs[i].key, name) == 0)
            return m->pairs[i].value;
    return "";
}

static void test_env(void)
{
    static const char *const pairs[][2] = {
        {"HF_TOKEN", "hunter2"},
        {"TOKENIZERS_PARALLELISM", "false"},
        {"KEYBOARD", "de"},
        {"KEY", ""},
        {"PLAIN", "sealed:1:0123456789abcdef:AAAA"},
        {"A_KEY", "sealed:1:0123456789abcdef:AAAA"}};
    enum { N = sizeof(pairs) / sizeof(pairs[0]) };
    struct spec_map env = env_of(pairs, N), got = {.n = 0};
    struct error err = ERROR_INIT;
    char found[SEAL_ID_CAP] = "";
    ok(seal_wants(&env), "a name that sounds secret");
    is_int(seal_env(&env, id, key, &err), 0, "is sealed");
    for (size_t i = 0; i < N; i++) {
        bool is_plain = strcmp(env.pairs[i].value, pairs[i][1]) == 0;
        bool wants = i == 0 || i == 3 || i == 5;
        ok(is_plain != wants && seal_is(&env.pairs[i]) == wants, "%s %s",
           pairs[i][0], wants ? "is" : "is not");
    }
    ok(seal_find(&env, found) && strcmp(found, id) == 0, "its id");
    is_int(seal_take(&env, key, &got, &err), 0, "opened");
    is_int((long long)got.n, 3, "those, and no others");
    is_str(value_of(&got, "HF_TOKEN"), "hunter2", "as it was");
    is_str(value_of(&got, "KEY"), "", "an empty one");
    is_str(value_of(&got, "A_KEY"), pairs[5][1], "once, not twice");
    is_int(seal_take(&env, key, &got, &err), 0, "added to what is there");
    is_int((long long)got.n, 6, "six");
    secrets_clear(&got);
    secrets_clear(&env);
}

static void refused(const char *about, const char *sealed,
                    const unsigned char *with, const char *what)
{
    struct error err = ERROR_INIT;
    char *text = NULL;
    ok(seal_open(with, about, sealed, &text, &err) < 0 &&
           err.code == ERR_INVAL && !text,
       "%s: %s", what, err.msg);
}

static void test_refused(void)
{
    unsigned char other[SEAL_KEY_BYTES];
    struct buf b = BUF_INIT, again = BUF_INIT;
    struct error err = ERROR_INIT;
    char *text = NULL, *copy;
    if (seal_text(key, "A", "hunter2", &b, &err) < 0 ||
        seal_text(key, "A", "hunter2", &again, &err) < 0)
        exit(1);
    ok(strcmp(buf_str(&b), buf_str(&again)) != 0, "twice is never the same");
    is_int(seal_open(key, "A", buf_str(&b), &text, &err), 0, "it opens");
    is_str(text, "hunter2", "to what it was");
    free(text);
    memcpy(other, key, sizeof(other));
    other[31] ^= 1;
    refused("A", buf_str(&b), other, "another key");
    refused("B", buf_str(&b), key, "another name");
    for (size_t i = 0; i < b.len; i += 7) {
        copy = strdup(buf_str(&b));
        copy[i] = copy[i] == 'A' ? 'B' : 'A';
        refused("A", copy, key, "another letter");
        copy[i] = '\n';
        refused("A", copy, key, "no letter");
        copy[i] = '\0';
        refused("A", copy, key, "cut short");
        free(copy);
    }
    refused("A", "", key, "nothing");
    refused("A", "====", key, "no bytes");
    refused("A", "AAAA", key, "too few bytes");
    buf_clear(&b);
    buf_clear(&again);
}

static void test_long(void)
{
    char *text = malloc(SEAL_TEXT_MAX + 2), *got = NULL;
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    const char *const pair[1][2] = {{"LONG_KEY", text}};
    memset(text, 'x', SEAL_TEXT_MAX + 1);
    text[SEAL_TEXT_MAX + 1] = '\0';
    struct spec_map env = env_of(pair, 1);
    ok(seal_env(&env, id, key, &err) < 0 && err.code == ERR_LIMIT &&
           strstr(err.msg, "LONG_KEY") && !strstr(err.msg, "xx"),
       "too long: %s", err.msg);
    text[SEAL_TEXT_MAX] = '\0';
    ok(seal_text(key, "A", text, &b, &err) == 0 &&
           seal_open(key, "A", buf_str(&b), &got, &err) == 0 &&
           strcmp(got, text) == 0,
       "the longest");
    free(got);
    free(text);
    buf_clear(&b);
    secrets_clear(&env);
}

/* The id of a spec is that of its own values, not of what looks like one. */
static void test_text(void)
{
    static const struct {
        const char *spec, *id;
    } cases[] = {
        {"{\"env\":{\"A\":\"b\"}}", ""},
        {"{\"env\":{\"A_KEY\":\"b\"}}", ""},
        {"{\"env\":{\"A_KEY\":\"sealed:1:00000000000000aa:x\"}}",
         "00000000000000aa"},
        {"{\"labels\":{\"KEY\":\"sealed:1:00000000000000aa:x\"},"
         "\"env\":{\"A\":\"sealed:1:00000000000000bb:x\","
         "\"KEY\":\"sealed:1:00000000000000cc:x\"}}",
         "00000000000000cc"},
        {"{\"env\":{\"A_KEY\":\"sealed:1:00000000000000a:x\"}}", ""},
        {"{\"env\":{\"A_KEY\":\"sealed:1:00000000000000AA:x\"}}", ""},
        {"{\"env\":{\"A_KEY\":\"sealed:1:0000000000000/..:x\"}}", ""},
        {"{\"env\":{\"A_KEY\":\"sealed:1:00000000000000aa\"}}", ""},
        {"{\"env\":[\"sealed:1:00000000000000aa:x\"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char found[SEAL_ID_CAP] = "";
        bool is_there = seal_find_text(cases[i].spec, found);
        ok(is_there == (cases[i].id[0] != '\0') &&
               strcmp(found, cases[i].id) == 0,
           "%s", cases[i].spec);
    }
}

static void test_hex(void)
{
    char hex[SEAL_HEX_CAP];
    unsigned char back[SEAL_KEY_BYTES];
    seal_hex(key, hex);
    ok(seal_unhex(hex, back) && memcmp(key, back, sizeof(back)) == 0,
       "a key in digits and back");
    hex[63] = 'g';
    ok(!seal_unhex(hex, back), "no digit");
    hex[63] = '\0';
    ok(!seal_unhex(hex, back), "too short");
}

int main(void)
{
    test_env();
    test_refused();
    test_long();
    test_text();
    test_hex();
    return tap_done();
}
