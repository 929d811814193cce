/* admin_try.c - see admin_try.h. The simulator is a program beside this one. */
#include "scheduler/tools/admin/admin_try.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"

/* ---- the settings ----------------------------------------------------------
 */
static const char prefix[] = "scheduler.";
enum { PREFIX_LEN = sizeof(prefix) - 1 };

static bool is_key(const char *word, const char *key)
{
    size_t len = strlen(key);
    return strncmp(word, key, len) == 0 && word[len] == '=';
}

/* The value that the words give the key; the last counts. NULL: none. */
static const char *tried(char **words, int n, const char *key)
{
    const char *value = NULL;
    for (int i = 0; i < n; i++)
        if (is_key(words[i], key))
            value = words[i] + strlen(key) + 1;
    return value;
}

static int check_words(const json_t *policy, char **words, int n,
                       struct error *err)
{
    for (int i = 0; i < n; i++) {
        size_t k;
        json_t *key;
        bool is_known = false;
        json_array_foreach(json_object_get(policy, "keys"), k, key)
        {
            const char *name = field_str(key, "key");
            is_known = is_known || (strncmp(name, prefix, PREFIX_LEN) == 0 &&
                                    is_key(words[i], name));
        }
        if (!is_known)
            return error_set(err, ERR_INVAL,
                             "'%.80s': expected KEY=VALUE with a key of "
                             "scheduler; mgpu-admin policy show has them",
                             words[i]);
        if (strpbrk(words[i], ",{"))
            return error_set(err, ERR_INVAL,
                             "'%.80s': the simulator has no users to weigh",
                             words[i]);
    }
    return 0;
}

enum { WORD_CAP = 500 }; /* mgpu-sim takes no longer word */

/* "goodput:hysteresis=2m,...": the word for mgpu-sim --policy, of a reply of
 * GET /v1/policy and the words on top of it. Settings that are the default are
 * left out.
 * err  ERR_INVAL, ERR_LIMIT the word is longer than mgpu-sim takes */
static int policy_word(const json_t *policy, char **words, int n,
                       char ret[WORD_CAP], struct error *err)
{
    const char *name = tried(words, n, "scheduler.policy");
    char text[WORD_CAP];
    size_t i, len;
    json_t *key;

    if (check_words(policy, words, n, err) < 0)
        return -1;
    len = (size_t)snprintf(text, sizeof(text), "%.60s",
                           name ? name : field_str(policy, "policy"));
    char separator = ':';
    json_array_foreach(json_object_get(policy, "keys"), i, key)
    {
        const char *path = field_str(key, "key");
        const char *set = tried(words, n, path);
        const char *value = set ? set : field_str(key, "value");
        bool is_default = strcmp(value, field_str(key, "default")) == 0;
        if (strncmp(path, prefix, PREFIX_LEN) != 0 || is_default ||
            strcmp(path, "scheduler.policy") == 0 || strpbrk(value, ",{"))
            continue;
        int more = snprintf(text + len, sizeof(text) - len, "%c%s=%s",
                            separator, path + PREFIX_LEN, value);
        if (more < 0 || (size_t)more >= sizeof(text) - len)
            return error_set(err, ERR_LIMIT, "too many settings to try");
        len += (size_t)more;
        separator = ',';
    }
    memcpy(ret, text, len + 1);
    return 0;
}

/* ---- the copy of the databases ---------------------------------------------
 */
static int snapshot(struct client *c, const char *dir, struct error *err)
{
    json_t *reply = NULL;
    json_t *body = json_pack("{s:s}", "dir", dir);
    int rc = body ? client_post(c, "/v1/admin/backup", body, NULL, &reply, err)
                  : error_set(err, ERR_NOMEM, "request");
    json_decref(body);
    json_decref(reply);
    return rc;
}

/* A backup has files alone. */
static void remove_snapshot(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
    if (rmdir(dir) < 0 && errno != ENOENT)
        (void)fprintf(stderr, "mgpu-admin: '%s' stays: %s\n", dir,
                      strerror(errno));
}

/* ---- the simulator ---------------------------------------------------------
 */
static void __attribute__((noreturn)) become_sim(char *const argv[])
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
    char *slash = NULL;

    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash) {
        memcpy(slash + 1, "mgpu-sim", sizeof("mgpu-sim"));
        (void)execv(path, argv);
    }
    (void)execvp("mgpu-sim", argv);
    _exit(127);
}

static int simulate(char *const argv[], struct error *err)
{
    int status = 0;

    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return error_sys(err, errno, "start mgpu-sim");
    if (pid == 0)
        become_sim(argv);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_sys(err, errno, "wait for mgpu-sim");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return error_set(err, ERR_UNAVAIL,
                         "mgpu-sim: found neither beside mgpu-admin nor on "
                         "PATH");
    return error_set(err, ERR_EXTERN, "mgpu-sim ended with %d",
                     WIFEXITED(status) ? WEXITSTATUS(status)
                                       : 128 + WTERMSIG(status));
}

static void time_before(double s, char ret[32])
{
    time_t t = (time_t)(clock_real.wall_s(&clock_real) - s);
    struct tm tm;
    (void)gmtime_r(&t, &tm);
    (void)strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int run(const char *dir, const char *now, const char *then,
               double since_s, bool json, struct error *err)
{
    char since[32];
    const char *args[12] = {"mgpu-sim", "--from-db", dir, "--policy",
                            now,        "--policy",  then};
    char *argv[12] = {NULL};
    int n = 7;

    if (since_s > 0) {
        time_before(since_s, since);
        args[n++] = "--since";
        args[n++] = since;
    }
    if (json)
        args[n++] = "--json";
    memcpy(argv, args, (size_t)n * sizeof(*args)); /* execv(3) changes none */
    if (!json)
        printf("now    %s\nthen   %s\n\n", now, then);
    return simulate(argv, err);
}

int admin_try(struct client *c, char **words, int n, double since_s, bool json,
              struct error *err)
{
    char now[WORD_CAP], then[WORD_CAP], dir[64];
    json_t *policy = NULL;

    if (n < 1)
        return error_set(err, ERR_USAGE, "policy try: expected KEY=VALUE...");
    if (client_get(c, &policy, err, "/v1/policy") < 0)
        return -1;
    int rc = policy_word(policy, NULL, 0, now, err);
    if (rc == 0)
        rc = policy_word(policy, words, n, then, err);
    json_decref(policy);
    if (rc < 0)
        return -1;
    (void)snprintf(dir, sizeof(dir), "/tmp/mgpu-try.%ld.%.0f", (long)getpid(),
                   1e6 * clock_real.wall_s(&clock_real));
    rc = snapshot(c, dir, err);
    if (rc == 0)
        rc = run(dir, now, then, since_s, json, err);
    remove_snapshot(dir);
    return rc;
}
