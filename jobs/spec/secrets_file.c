/* secrets_file.c - see secrets_file.h. Values are overwritten before their
 * memory is freed: this process may leave a core file that others can read. */
#include "jobs/spec/secrets_file.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"
#include "jobs/schema/schema.h"

static int path_of(const char *name, const char *home, char ret[PATH_MAX],
                   struct error *err)
{
    if (!home)
        home = getenv("HOME");
    if (!home || home[0] != '/') {
        const struct passwd *pw = getpwuid(geteuid());
        home = pw ? pw->pw_dir : "";
    }
    int n = snprintf(ret, PATH_MAX, "%s/" SECRET_DIR "/%s", home, name);
    if (home[0] != '/' || n < 0 || n >= PATH_MAX)
        return error_set(err, ERR_NOTFOUND,
                         "secret '%s': this user has no home directory", name);
    return 0;
}

/* Returns a descriptor, or -1. */
static int open_it(const char *name, const char *path, struct error *err)
{
    struct error reason = ERROR_INIT;
    struct stat st;
    const char *why = NULL;
    int fd = plain_file_open(path, 0, &st, &reason);
    if (fd < 0)
        return error_set(err,
                         reason.code == ERR_INVAL ? ERR_DENIED : reason.code,
                         "secret '%s': %s", name, reason.msg);
    if (st.st_uid != geteuid())
        why = "is not a file of the job's user";
    else if (st.st_mode & (S_IRWXG | S_IRWXO))
        why = "is open to other users, and must be of mode 0600";
    if (!why)
        return fd;
    (void)close(fd);
    return error_set(err, ERR_DENIED, "secret '%s': '%s' %s", name, path, why);
}

int secret_look(const char *name, const char *home, struct error *err)
{
    char path[PATH_MAX];
    int fd =
        path_of(name, home, path, err) == 0 ? open_it(name, path, err) : -1;
    if (fd < 0)
        return -1;
    (void)close(fd);
    return 0;
}

/* Reads at most cap bytes; *ret_n equal to cap means that there may be more. */
static int read_all(int fd, char *text, size_t cap, size_t *ret_n)
{
    size_t n = 0;
    while (n < cap) {
        ssize_t got = read(fd, text + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret_n = n;
    return 0;
}

/* Editors end a file with "\n" or "\r\n". */
static size_t without_newline(const char *text, size_t n)
{
    if (n > 0 && text[n - 1] == '\n')
        n--;
    if (n > 0 && text[n - 1] == '\r')
        n--;
    return n;
}

static int take_value(const char *name, const char *path, const char *text,
                      size_t n, char **ret, struct error *err)
{
    if (n > SECRET_MAX_BYTES)
        return error_set(err, ERR_LIMIT,
                         "secret '%s': '%s' is longer than %d bytes", name,
                         path, SECRET_MAX_BYTES);
    n = without_newline(text, n);
    if (n == 0 || memchr(text, '\0', n))
        return error_set(err, ERR_INVAL, "secret '%s': '%s' %s", name, path,
                         n == 0 ? "is empty" : "has a NUL byte");
    *ret = strndup(text, n);
    return *ret ? 0 : error_set(err, ERR_NOMEM, "secret '%s'", name);
}

static int read_one(const char *name, const char *home, char **ret,
                    struct error *err)
{
    char path[PATH_MAX], text[SECRET_MAX_BYTES + 1];
    size_t n = 0;
    if (path_of(name, home, path, err) < 0)
        return -1;
    int fd = open_it(name, path, err);
    if (fd < 0)
        return -1;
    int rc = read_all(fd, text, sizeof(text), &n);
    if (rc < 0)
        (void)error_sys(err, errno, "secret '%s': read '%s'", name, path);
    else
        rc = take_value(name, path, text, n, ret, err);
    explicit_bzero(text, sizeof(text));
    (void)close(fd);
    return rc;
}

int secrets_read(const struct spec_list *names, const char *home,
                 struct spec_map *ret, struct error *err)
{
    struct spec_map m = {.n = 0};
    m.pairs = calloc(names->n + 1, sizeof(*m.pairs));
    if (!m.pairs)
        return error_set(err, ERR_NOMEM, "secrets");
    for (size_t i = 0; i < names->n; i++) {
        struct spec_pair *p = &m.pairs[m.n++];
        p->key = strdup(names->items[i]);
        int rc = p->key ? read_one(p->key, home, &p->value, err)
                        : error_set(err, ERR_NOMEM, "secrets");
        if (rc < 0) {
            secrets_clear(&m);
            return -1;
        }
    }
    *ret = m;
    return 0;
}

void secrets_clear(struct spec_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct spec_pair *p = &m->pairs[i];
        if (p->value)
            explicit_bzero(p->value, strlen(p->value));
        free(p->key);
        free(p->value);
    }
    free(m->pairs);
    *m = (struct spec_map){.n = 0};
}
