/* place_text.c - places as text: runs, nodes, overflow, and the way back. */
#include "slurm/place_text.h"

#include <string.h>

#include "tests/tap.h"

static const char *write_place(const int32_t *at, size_t n, size_t cap)
{
    static char text[6144];
    struct place_text t;
    place_text_begin(&t);
    place_text_node(&t, "n1");
    for (size_t i = 0; i < n; i++)
        place_text_index(&t, at[i]);
    place_text_end(&t, text, cap);
    return text;
}

static void test_write(void)
{
    is_str(write_place(NULL, 0, 64), "n1", "no index");
    is_str(write_place((const int32_t[]){3}, 1, 64), "n1:3", "one");
    is_str(write_place((const int32_t[]){0, 1}, 2, 64), "n1:0,1", "two");
    is_str(write_place((const int32_t[]){0, 1, 2, 5, 7, 8, 9}, 7, 64),
           "n1:0-2,5,7-9", "ranges");
    struct place_text t;
    char text[64];
    place_text_begin(&t);
    place_text_node(&t, "a");
    place_text_index(&t, 4);
    place_text_node(&t, "b");
    place_text_index(&t, 0);
    place_text_node(&t, "c");
    place_text_end(&t, text, sizeof(text));
    is_str(text, "a:4 b:0 c", "several nodes");

    const int32_t even[] = {0, 2, 4};
    is_str(write_place(even, 3, 9), "n1:0,2,4", "exactly as long as the room");
    is_str(write_place(even, 3, 8), "n1:0...", "one too long");
}

static void test_parse(void)
{
    struct error err = ERROR_INIT;
    unsigned char used[10] = {0};
    is_int(place_text_parse("host:0-2,5", used, 10, &err), 0, "parses");
    ok(memcmp(used, "\1\1\1\0\0\1\0\0\0\0", 10) == 0, "the indexes named");
    is_int(place_text_parse("host", used, 10, &err), 0, "none is fine");
    static const char *const bad[] = {
        "h:",    "h:x",  "h:10", "h:1-10", "h:-1",
        "h:5-2", "h:1,", "h:1 ", "h:1-",   "h:99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(place_text_parse(bad[i], used, 10, &err) == -1 &&
               err.code == ERR_INVAL,
           "'%s' is refused", bad[i]);
}

int main(void)
{
    test_write();
    test_parse();
    return tap_done();
}
