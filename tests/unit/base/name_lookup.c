/* name_lookup.c - the cache of names, with a user database that is slow or
 * knows nobody. getpwuid_r() is the test's, in place of the C library's. */
#include "jobs/base/name_lookup.h"

#include <math.h>
#include <poll.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

enum { NOBODY = 99, DEADLINE_MS = 60000 };
static _Atomic bool is_mute; /* no answer, for now */
static _Atomic int n_asked;
static _Atomic uid_t asked[16]; /* in turn */

/* "user1", and so on. */
int getpwuid_r(uid_t uid, struct passwd *pw, char *space, size_t cap,
               struct passwd **ret)
{
    asked[n_asked++ % 16] = uid;
    while (is_mute)
        (void)poll(NULL, 0, 1);
    *ret = NULL;
    if (uid == NOBODY)
        return 0;
    (void)snprintf(space, cap, "user%lu", (unsigned long)uid);
    *pw = (struct passwd){.pw_name = space, .pw_uid = uid, .pw_dir = space};
    *ret = pw;
    return 0;
}

static bool answers(struct names *n)
{
    struct pollfd p = {.fd = names_fd(n), .events = POLLIN};
    bool is_in = poll(&p, 1, DEADLINE_MS) == 1;
    names_read_fd(n);
    return is_in;
}

/* What it is called once there is an answer. */
static const char *name_of(struct names *n, uid_t uid)
{
    static char name[NAME_USER_CAP];
    while (isfinite(names_user(n, uid, name)) && answers(n))
        ;
    return name;
}

static void test_cache(struct names *n)
{
    char name[NAME_USER_CAP];
    is_mute = true;
    ok(names_user(n, 1, name) == 0 && strcmp(name, "1") == 0,
       "the first time: the number, and it is looked up");
    ok(isfinite(names_user(n, 1, name)), "  once");
    is_mute = false;
    ok(answers(n), "the answer wakes who waits");
    ok(isinf(names_user(n, 1, name)), "  it is known");
    is_str(name, "user1", "  the name");
    is_int(n_asked, 1, "  of one lookup");
    is_str(name_of(n, 2), "user2", "a second one");
    is_int(n_asked, 2, "  of another");
    is_str(name_of(n, 3), "user3", "a third one, with room for two");
    is_str(name_of(n, 2), "user2", "  the second is still there");
    is_int(n_asked, 3, "  known");
    is_str(name_of(n, 1), "user1", "  the first gave way");
    is_int(n_asked, 4, "  and is looked up again");
}

static void test_unknown(struct names *n)
{
    char name[NAME_USER_CAP];
    n_asked = 0;
    ok(isfinite(names_user(n, NOBODY, name)) && answers(n), "nobody");
    is_str(name, "99", "  has a number");
    ok(isfinite(names_user(n, NOBODY, name)) && answers(n),
       "  and is looked up again soon");
    is_int(n_asked, 2, "  twice");
}

/* The user who is nobody has the first place, and is asked for again while the
 * thread is at the second. */
static void test_turns(void)
{
    static const struct names_conf conf = {.cached = 3, .keep_s = 1e6};
    struct error err = ERROR_INIT;
    struct names *n = NULL;
    char name[NAME_USER_CAP];
    if (!ok(names_create(&conf, &n, &err) == 0, "three places"))
        return;
    ok(isfinite(names_user(n, NOBODY, name)) && answers(n), "nobody is first");
    n_asked = 0;
    is_mute = true;
    (void)names_user(n, 31, name);
    while (n_asked == 0)
        (void)poll(NULL, 0, 1);
    (void)names_user(n, NOBODY, name);
    (void)names_user(n, 32, name);
    is_mute = false;
    is_str(name_of(n, 32), "user32", "who came after is found");
    while (n_asked < 3)
        (void)poll(NULL, 0, 1);
    ok(asked[0] == 31 && asked[1] == 32 && asked[2] == NOBODY,
       "  in turn, whoever else is asked for again");
    names_release(n);
}

static void test_address(struct names *n)
{
    char address[NAME_ADDRESS_CAP], host[300];
    names_address(n, "127.0.0.1", address);
    is_str(address, "", "no address yet");
    ok(answers(n), "the answer wakes, too");
    names_address(n, "127.0.0.1", address);
    is_str(address, "127.0.0.1", "  the address");
    memset(host, 'x', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    names_address(n, host, address);
    is_str(address, "", "no host has so long a name");
}

static void test_full(struct names *n)
{
    char name[NAME_USER_CAP];
    is_mute = true;
    ok(isfinite(names_user(n, 11, name)) && isfinite(names_user(n, 12, name)),
       "as many lookups as there is room for");
    ok(isinf(names_user(n, 13, name)) && strcmp(name, "13") == 0,
       "  another one is not looked up, and has its number");
    ok(isfinite(names_user(n, 11, name)), "  the others still are");
}

int main(void)
{
    static const struct names_conf conf = {.cached = 2, .keep_s = 1e6};
    struct error err = ERROR_INIT;
    struct names *n = NULL;
    if (names_create(&conf, &n, &err) < 0)
        return 1;
    test_cache(n);
    test_unknown(n);
    test_turns();
    test_address(n);
    test_full(n);
    names_release(n);
    names_release(NULL);
    ok(true, "nobody waits for a lookup that hangs");
    is_mute = false;
    return tap_done();
}
