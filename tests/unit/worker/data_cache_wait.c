/* data_cache_wait.c - tokenised rows that several processes want: one makes
 * them, the others wait for it and say how far it is. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "tests/unit/worker/cache_rig.h"
#include "worker/data/cache/token_lock.h"

/* Many processes at once: one makes the file, the others read it. Each says by
 * its exit status what it did. */
static void test_at_once(void)
{
    enum { PROCESSES = 6 };
    pid_t pid[PROCESSES];
    int made = 0, mapped = 0;
    empty_dir();
    for (int i = 0; i < PROCESSES; i++)
        if ((pid[i] = fork()) == 0) {
            struct run r;
            struct token_data d;
            struct error err = ERROR_INIT;
            begin(&r);
            r.conf.yields = i > 0;
            _exit(token_cache_open(&r.conf, &d, &err) < 0 ? 2
                  : d.is_kept                             ? 1
                                                          : 0);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        if (pid[i] < 0 || waitpid(pid[i], &status, 0) < 0)
            exit(1);
        made += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        mapped += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    is_int(made, 1, "one makes it");
    is_int(mapped, PROCESSES - 1, "the others read it");
}

/* One that holds the lock and is killed: the next takes over. */
static void test_taken_over(void)
{
    struct run r;
    struct token_data d;
    char path[400], held;
    int ready[2];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    if (files_of(".tokens", path, sizeof(path)) != 1 || unlink(path) < 0 ||
        files_of(".lock", path, sizeof(path)) != 1 || pipe(ready) < 0)
        exit(1);
    const pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        (void)pause();
    }
    if (read(ready[0], &held, 1) != 1)
        exit(1);
    const pid_t waiter = fork();
    if (waiter == 0) {
        struct error err = ERROR_INIT;
        _exit(token_cache_open(&r.conf, &d, &err) < 0 || d.is_kept);
    }
    (void)kill(pid, SIGKILL);
    int status = -1;
    if (waitpid(pid, NULL, 0) < 0 || waitpid(waiter, &status, 0) < 0)
        exit(1);
    is_int(status, 0, "who waited makes it when the first is killed");
    is_int(files_of(".tokens", path, sizeof(path)), 1, "and keeps it");
    (void)close(ready[0]);
    (void)close(ready[1]);
}

/* A writer that has told its share, and goes on when a byte comes. */
struct halted {
    int told, go_on; /* to the one that waits for it; from it */
};

static void halt(void *arg, double share)
{
    struct halted *h = arg;
    char go;
    if (h->told < 0)
        return; /* it goes on */
    if (write(h->told, &share, sizeof(share)) != sizeof(share) ||
        read(h->go_on, &go, 1) != 1)
        _exit(1);
    h->told = -1;
}

/* in   h  whose reads and writes the waiter answers */
static void make_halted(struct halted *h, const struct clock *clock)
{
    struct run r;
    struct token_data d;
    struct error err = ERROR_INIT;
    begin(&r);
    r.conf.clock = clock;
    r.conf.tokenised = halt;
    r.conf.say = NULL;
    r.conf.arg = h;
    _exit(token_cache_open(&r.conf, &d, &err) < 0);
}

static int release; /* the writer, once this one has heard of it */

static double told; /* the share that was told first */

static void tell_once(void *arg, double share)
{
    (void)arg;
    if (release < 0)
        return;
    told = share;
    if (write(release, "x", 1) != 1)
        exit(1);
    release = -1;
}

/* More than is read from a file at once, so that the writer has a share. */
static void many_rows(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f != NULL && i < 20000; i++)
        (void)fputs("{\"instruction\": \"a\", \"output\": \"b\"}\n", f);
    if (f == NULL || fclose(f) != 0)
        exit(1);
}

/* Who waits for another's rows tells how far the other is. */
static void test_followed(void)
{
    static const struct clock clock = {.now_s = tick};
    struct run r;
    struct token_data d;
    double share = -1;
    char path[400];
    int up[2], down[2], status = -1;
    empty_dir();
    (void)snprintf(data, sizeof(data), "%s/rows.jsonl", dir);
    many_rows(data);
    if (pipe(up) < 0 || pipe(down) < 0)
        exit(1);
    struct halted h = {.told = up[1], .go_on = down[0]};
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(down[1]); /* it ends when this process does */
        make_halted(&h, &clock);
    }
    (void)close(up[1]);
    (void)close(down[0]);
    (void)alarm(120); /* a writer of which nothing is heard waits for ever */
    if (read(up[0], &share, sizeof(share)) != sizeof(share))
        exit(1);
    begin(&r);
    r.conf.clock = &clock;
    r.conf.tokenised = tell_once;
    told = -1;
    release = down[1];
    open_cache(&r, &d);
    (void)alarm(0);
    ok(share > 0 && share < 1 && told > share - 1e-3 && told <= share,
       "the share of another is told: %g of %g", told, share);
    ok(d.is_kept && strstr(r.said, "waiting for rows") != NULL,
       "and its rows are read");
    token_data_clear(&d);
    if (close(down[1]) < 0 || waitpid(pid, &status, 0) < 0)
        exit(1);
    is_int(status, 0, "which it has kept");
    is_int(files_of(".lock", path, sizeof(path)), 1, "beside its lock");
    (void)close(up[0]);
}

/* Texts in the lock that no writer of ours has left there. */
static void test_told_badly(void)
{
    static const char *const texts[] = {"",       "4",        "0413",  "1001\n",
                                        "-001\n", "a413\n\n", "04 3\n"};
    char path[100];
    (void)snprintf(path, sizeof(path), "%s/bad.lock", dir);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        token_file(path, texts[i]);
        struct error err = ERROR_INIT;
        const int fd = token_lock_open(path, &err);
        ok(fd >= 0 && isnan(token_lock_told(fd)), "no share: %zu", i);
        token_lock_tell(fd, 0.4137);
        ok(token_lock_told(fd) == .413, "then one");
        token_lock_tell(fd, 1.5);
        ok(token_lock_told(fd) == 1, "which ends at all of it");
        (void)close(fd);
    }
    (void)unlink(path);
}

static int heard; /* where a waiter says that it waits */

static void say_once(void *arg, const char *line)
{
    (void)arg;
    if (strstr(line, "waiting") != NULL && write(heard, "x", 1) != 1)
        _exit(1);
}

/* The one that makes the rows has no room for them, and takes its lock away:
 * who waited does not try the same, but tokenises for itself. */
static void test_given_up(void)
{
    struct run r;
    struct token_data d;
    char path[400], said;
    int waits[2];
    empty_dir();
    begin(&r);
    open_cache(&r, &d);
    token_data_clear(&d);
    if (files_of(".tokens", path, sizeof(path)) != 1 || unlink(path) < 0 ||
        files_of(".lock", path, sizeof(path)) != 1 || pipe(waits) < 0)
        exit(1);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        exit(1);
    const pid_t waiter = fork();
    if (waiter == 0) {
        struct error err = ERROR_INIT;
        (void)close(fd);
        heard = waits[1];
        r.conf.say = say_once;
        _exit(token_cache_open(&r.conf, &d, &err) < 0 || d.is_kept);
    }
    if (read(waits[0], &said, 1) != 1 || unlink(path) < 0)
        exit(1);
    /* The lock goes with its last descriptor, and the waiter closed its. */
    (void)flock(fd, LOCK_UN);
    int status = -1;
    if (waitpid(waiter, &status, 0) < 0)
        exit(1);
    is_int(status, 0, "who waited in vain has the rows");
    is_int(files_of(".tokens", path, sizeof(path)), 0, "and keeps none");
    (void)close(fd);
    (void)close(waits[0]);
    (void)close(waits[1]);
}

int main(void)
{
    rig_open();
    test_at_once();
    test_taken_over();
    test_given_up();
    test_followed();
    test_told_badly();
    rig_close();
    return tap_done();
}
