/* protected_uids.c - read SlurmUser and munged's account from slurm.conf; see
 * protected_uids.h. */
#include "slurm/as_user/protected_uids.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/buf.h"

enum { CONF_MAX = 64 << 20, DEPTH_MAX = 8, VALUE_CAP = 4096 };
static const char blanks[] = " \t\r";
/* The default socket of munged. */
static const char munge_default[] = "/run/munge/munge.socket.2";

/* ---- slurm.conf -----------------------------------------------------------
 */
struct find {
    const char *key;
    char *ret;
    size_t cap;
};

static int find_in(const char *path, int depth, const struct find *f,
                   struct error *err);

static size_t n_backslashes(const char *begin, const char *end)
{
    size_t n = 0;
    while (end > begin && end[-1] == '\\') {
        end--;
        n++;
    }
    return n;
}

/* Length up to the end of the line, or a '#' that is not escaped. */
static size_t before_comment(const char *line)
{
    size_t n = strcspn(line, "#\n");
    while (line[n] == '#' && n_backslashes(line, line + n) % 2 == 1)
        n += 1 + strcspn(line + n + 1, "#\n");
    return n;
}

/* Reads the line at *p without its comment, joined with its continuation lines
 * (a backslash ends each); moves *p behind it. */
static int next_line(const char **p, struct buf *line, struct error *err)
{
    bool goes_on = true;
    buf_reset(line);
    while (goes_on && **p) {
        size_t n = before_comment(*p);
        while (n > 0 && strchr(blanks, (*p)[n - 1]))
            n--;
        goes_on = n_backslashes(*p, *p + n) % 2 == 1;
        if (buf_add(line, *p, goes_on ? n - 1 : n, err) < 0)
            return -1;
        *p += strcspn(*p, "\n");
        *p += **p == '\n';
    }
    return 0;
}

/* Returns what follows the word and its separators; NULL: another line. */
static const char *after(const char *line, const char *word,
                         const char *separators)
{
    size_t n = strlen(word);
    line += strspn(line, blanks);
    if (strncasecmp(line, word, n) != 0 || !line[n] ||
        !strchr(separators, line[n]))
        return NULL;
    return line + n + strspn(line + n, separators);
}

static int copy_value(const char *p, char *ret, size_t cap, struct error *err)
{
    size_t n = p[0] == '"' ? strcspn(++p, "\"") : strcspn(p, blanks);
    if (n >= cap)
        return error_set(err, ERR_CONFIG, "a value of %zu bytes", n);
    memcpy(ret, p, n);
    ret[n] = '\0';
    return 0;
}

static int include(const char *from, const char *name, int depth,
                   const struct find *f, struct error *err)
{
    char path[VALUE_CAP];
    char file[VALUE_CAP];
    const char *slash = strrchr(from, '/');
    if (copy_value(name, file, sizeof(file), err) < 0)
        return -1;
    int n = snprintf(path, sizeof(path), "%.*s%s",
                     file[0] == '/' || !slash ? 0 : (int)(slash - from + 1),
                     from, file);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(err, ERR_CONFIG, "the path of a file is too long");
    return find_in(path, depth + 1, f, err);
}

static int find_in(const char *path, int depth, const struct find *f,
                   struct error *err)
{
    struct buf text = BUF_INIT;
    struct buf line = BUF_INIT;
    int rc = depth < DEPTH_MAX
                 ? buf_read_file(&text, path, CONF_MAX, err)
                 : error_set(err, ERR_CONFIG, "endless includes in '%s'", path);
    const char *p = rc == 0 ? buf_str(&text) : "";
    while (rc == 0 && *p && (rc = next_line(&p, &line, err)) == 0) {
        const char *file = after(buf_str(&line), "Include", blanks);
        const char *value = after(buf_str(&line), f->key, " \t=");
        if (file)
            rc = include(path, file, depth, f, err);
        else if (value)
            rc = copy_value(value, f->ret, f->cap, err);
    }
    buf_clear(&line);
    buf_clear(&text);
    return rc;
}

int protected_uids_conf_value(const char *slurm_conf, const char *key,
                              char *ret, size_t cap, struct error *err)
{
    const struct find f = {.key = key, .ret = ret, .cap = cap};
    ret[0] = '\0';
    return find_in(slurm_conf, 0, &f, err);
}

/* ---- the accounts ---------------------------------------------------------
 */
/* "slurm", "64030" or, as scontrol writes it, "slurm(64030)". */
static int user_of(char *name, uid_t *ret, struct error *err)
{
    struct passwd pw;
    struct passwd *found = NULL;
    char room[16384];
    char *end;
    name[strcspn(name, "(")] = '\0';
    unsigned long n = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && !*end) {
        *ret = (uid_t)n;
        return 0;
    }
    int rc = getpwnam_r(name, &pw, room, sizeof(room), &found);
    if (rc != 0)
        return error_sys(err, rc, "SlurmUser '%s'", name);
    if (!found)
        return error_set(err, ERR_CONFIG, "there is no SlurmUser '%s'", name);
    *ret = pw.pw_uid;
    return 0;
}

/* "socket=/path,ttl=300" */
static const char *socket_in(char *auth_info)
{
    char *save = NULL;
    for (char *p = strtok_r(auth_info, ",", &save); p;
         p = strtok_r(NULL, ",", &save))
        if (strncmp(p, "socket=", 7) == 0)
            return p + 7;
    return munge_default;
}

int protected_uids_check(const char *slurm_conf, uid_t uid, struct error *err)
{
    char value[VALUE_CAP];
    uid_t slurm_user = 0; /* the default if there is no such key */
    struct stat st;
    int rc = protected_uids_conf_value(slurm_conf, "SlurmUser", value,
                                       sizeof(value), err);
    if (rc == 0 && value[0])
        rc = user_of(value, &slurm_user, err);
    if (rc == 0 && uid == slurm_user)
        return error_set(err, ERR_DENIED,
                         "user %lu is SlurmUser, who may not run jobs here",
                         (unsigned long)uid);
    if (rc == 0)
        rc = protected_uids_conf_value(slurm_conf, "AuthInfo", value,
                                       sizeof(value), err);
    if (rc < 0) {
        (void)error_wrap(err, "cannot determine SlurmUser");
        err->code = ERR_UNAVAIL;
        return -1;
    }
    /* Without that socket Slurm works without munged, or not at all. */
    if (stat(socket_in(value), &st) == 0 && st.st_uid == uid)
        return error_set(err, ERR_DENIED,
                         "user %lu runs munged, and may not run jobs here",
                         (unsigned long)uid);
    return 0;
}
