/* image_folder.c - see image_folder.h. */
#include "worker/data/image/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/rng.h"
#include "jobs/text/text.h"
#include "worker/checkpoint/crc64.h"

enum { PATH_MOST = 4096, DEPTH_MAX = 16, NAMED_STRAYS = 3 };

struct scan {
    const struct folder_conf *conf;
    struct folder *f;
    struct buf classes; /* their names, each with its NUL, sorted */
    char path[PATH_MOST];
    size_t root; /* where the name relative to dir begins in path */
};

/* ---- names ---------------------------------------------------------------
 */

static bool ends_in(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    for (; dot && *endings; endings++)
        if (strcasecmp(dot, *endings) == 0)
            return true;
    return false;
}

static bool is_image(const char *name)
{
    static const char *const known[] = {".jpg", ".jpeg", ".png", NULL};
    return ends_in(name, known);
}

/* torchvision would read these. */
static bool is_other_image(const char *name)
{
    static const char *const other[] = {".ppm",  ".bmp",  ".pgm", ".tif",
                                        ".tiff", ".webp", NULL};
    return ends_in(name, other);
}

/* path += "/name"; the caller cuts it off again. */
static int enter(struct scan *s, const char *name, struct error *err)
{
    size_t len = strlen(s->path);
    int n = snprintf(s->path + len, PATH_MOST - len, "/%s", name);
    if (n < 0 || (size_t)n >= PATH_MOST - len) {
        s->path[len] = '\0';
        return error_set(err, ERR_INVAL, "%.150s...: the path is too long",
                         s->path);
    }
    return 0;
}

static void add_stray(struct scan *s)
{
    char q[TEXT_QUOTE_CAP];
    char *out = s->f->first_strays;
    size_t len = strlen(out), room = sizeof(s->f->first_strays) - len;
    const char *name = text_quote(q, sizeof(q), s->path + s->root);
    if (s->f->strays++ < NAMED_STRAYS && strlen(name) + 3 < room)
        (void)snprintf(out + len, room, "%s%s", len ? ", " : "", name);
}

/* Refuses s->path, or with skip_bad counts it as a stray. */
static int refuse(struct scan *s, const char *why, struct error *err)
{
    char q[TEXT_QUOTE_CAP];
    if (!s->conf->skip_bad)
        return error_set(err, ERR_INVAL, "%s: %s",
                         text_quote(q, sizeof(q), s->path), why);
    add_stray(s);
    return 0;
}

static int add_file(struct scan *s, int32_t label, struct error *err)
{
    const char *name = s->path + s->root;
    struct folder_file file = {.name = s->f->names.len, .label = label};
    if (s->f->n == INT32_MAX)
        return error_set(err, ERR_LIMIT, "%s: more than 2^31 files", s->f->dir);
    if (buf_add(&s->f->names, name, strlen(name) + 1, err) < 0 ||
        buf_add(&s->f->list, &file, sizeof(file), err) < 0)
        return -1;
    s->f->n++;
    return 0;
}

/* ---- directories ---------------------------------------------------------
 */

static DIR *open_directory(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        (void)error_sys(err, errno, "%s", path);
        if (fd >= 0)
            (void)close(fd);
    }
    return d;
}

/* 1 and the entry, 0 at the end, -1 and err. */
static int next_entry(const struct scan *s, DIR *d, struct dirent **ret,
                      mode_t *ret_type, struct error *err)
{
    struct stat st;
    do {
        errno = 0;
        *ret = readdir(d);
        if (!*ret)
            return errno ? error_sys(err, errno, "%s", s->path) : 0;
    } while (strcmp((*ret)->d_name, ".") == 0 ||
             strcmp((*ret)->d_name, "..") == 0);
    *ret_type = (mode_t)DTTOIF((*ret)->d_type);
    if ((*ret)->d_type == DT_UNKNOWN) { /* some file systems do not tell */
        if (fstatat(dirfd(d), (*ret)->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return error_sys(err, errno, "%s/%s", s->path, (*ret)->d_name);
        *ret_type = st.st_mode & S_IFMT;
    }
    return 1;
}

static int scan_class(struct scan *s, int32_t label, int depth,
                      struct error *err);

/* s->path is the entry. */
static int take_entry(struct scan *s, mode_t type, int32_t label, int depth,
                      struct error *err)
{
    const char *name = strrchr(s->path, '/') + 1;
    if (name[0] == '.') {
        add_stray(s);
        return 0;
    }
    switch (type) {
    case S_IFDIR:
        if (depth == DEPTH_MAX)
            return error_set(err, ERR_INVAL, "%s: directories too deep",
                             s->path);
        return scan_class(s, label, depth + 1, err);
    case S_IFREG:
        if (is_image(name))
            return add_file(s, label, err);
        if (is_other_image(name))
            return refuse(s, "only JPEG and PNG images can be read", err);
        add_stray(s);
        return 0;
    case S_IFLNK:
        return refuse(s, "a symbolic link is not followed", err);
    default:
        return refuse(s, "not a file", err);
    }
}

/* All of a class, in no order yet. */
static int scan_class(struct scan *s, int32_t label, int depth,
                      struct error *err)
{
    size_t len = strlen(s->path);
    struct dirent *e;
    mode_t type;
    int rc = -1;
    DIR *d = open_directory(s->path, err);
    if (!d)
        return -1;
    while ((rc = next_entry(s, d, &e, &type, err)) > 0) {
        rc = enter(s, e->d_name, err);
        rc = rc < 0 ? rc : take_entry(s, type, label, depth, err);
        s->path[len] = '\0';
        if (rc < 0)
            break;
    }
    (void)closedir(d);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the directories in s->path, sorted; the caller frees both. */
static int list_classes(struct scan *s, struct buf *names, char ***ret,
                        int32_t *ret_n, struct error *err)
{
    size_t len = strlen(s->path), at = 0;
    struct dirent *e;
    mode_t type;
    int rc = -1;
    int32_t n = 0;
    DIR *d = open_directory(s->path, err);
    if (!d)
        return -1;
    while ((rc = next_entry(s, d, &e, &type, err)) > 0) {
        rc = enter(s, e->d_name, err);
        if (rc == 0 && type == S_IFDIR && e->d_name[0] != '.') {
            rc = buf_add(names, e->d_name, strlen(e->d_name) + 1, err);
            n++;
        } else if (rc == 0 && type != S_IFDIR && type != S_IFREG) {
            /* A class that is passed over would not be noticed. */
            rc = error_set(err, ERR_INVAL, "%s: neither directory nor file",
                           s->path);
        } else if (rc == 0) {
            add_stray(s);
        }
        s->path[len] = '\0';
        if (rc < 0)
            break;
    }
    (void)closedir(d);
    if (rc < 0)
        return -1;
    if (n == 0)
        return error_set(err, ERR_NOTFOUND, "%s: no class directories",
                         s->path);
    char **list = malloc((size_t)n * sizeof(*list));
    if (!list)
        return error_set(err, ERR_NOMEM, "%d classes", n);
    for (int32_t i = 0; i < n; i++, at += strlen(names->data + at) + 1)
        list[i] = names->data + at;
    qsort(list, (size_t)n, sizeof(*list), by_name);
    *ret = list;
    *ret_n = n;
    return 0;
}

/* ---- the whole -----------------------------------------------------------
 */

/* Sorts as os.walk() and sorted() do: by directory, then by name. */
static int by_place(const void *a, const void *b, void *names)
{
    const struct folder_file *x = a, *y = b;
    const char *p = (const char *)names + x->name;
    const char *q = (const char *)names + y->name;
    size_t m = (size_t)(strrchr(p, '/') - p), n = (size_t)(strrchr(q, '/') - q);
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    int order = memcmp(p, q, m < n ? m : n);
    if (order == 0 && m != n)
        order = m < n ? -1 : 1;
    return order ? order : strcmp(p + m, q + n);
}

/* s->path holds the class directories; labels by the names in classes. */
static int scan_classes(struct scan *s, char **classes, int32_t n, char **here,
                        int32_t n_here, bool need_all, struct error *err)
{
    size_t len = strlen(s->path);
    for (int32_t i = 0; i < n_here; i++) {
        int32_t before = s->f->n;
        char **at =
            bsearch(&here[i], classes, (size_t)n, sizeof(*classes), by_name);
        if (enter(s, here[i], err) < 0)
            return -1;
        if (!at)
            return error_set(err, ERR_INVAL,
                             "%s: there is no such class in train", s->path);
        if (scan_class(s, (int32_t)(at - classes), 0, err) < 0)
            return -1;
        if (need_all && s->f->n == before)
            return error_set(err, ERR_INVAL, "%s: no image of this class",
                             s->path);
        s->path[len] = '\0';
    }
    if (s->f->n == 0)
        return error_set(err, ERR_NOTFOUND, "%s: no image", s->path);
    qsort_r(s->f->list.data, (size_t)s->f->n, sizeof(struct folder_file),
            by_place, s->f->names.data);
    return 0;
}

/* Classes are those of train (or of dir), also for the files of val. */
static int scan_part(struct scan *s, const char *train, const char *part,
                     struct error *err)
{
    struct buf names = BUF_INIT, here_names = BUF_INIT;
    char **classes = NULL, **here = NULL;
    size_t len = strlen(s->path);
    int32_t n = 0, n_here = 0;
    bool same = strcmp(train, part) == 0;
    int rc = *train ? enter(s, train, err) : 0;
    rc = rc < 0 ? rc : list_classes(s, &names, &classes, &n, err);
    if (rc == 0 && !same) {
        s->path[len] = '\0';
        s->f->strays = 0; /* train reports its own */
        s->f->first_strays[0] = '\0';
        rc = enter(s, part, err);
        rc = rc < 0 ? rc : list_classes(s, &here_names, &here, &n_here, err);
    }
    if (rc == 0)
        rc = scan_classes(s, classes, n, same ? classes : here,
                          same ? n : n_here, same, err);
    s->f->num_classes = n;
    free(here);
    free(classes);
    buf_clear(&here_names);
    buf_clear(&names);
    return rc;
}

/* Keeps one part of all files; which, is drawn. */
static int take_share(struct folder *f, const struct folder_conf *conf,
                      struct error *err)
{
    struct folder_file *files = folder_files(f);
    int32_t eval = (int32_t)lrint(f->n * conf->split), kept = 0;
    if (f->n < 2)
        return error_set(err, ERR_INVAL, "%s: one image cannot be split",
                         f->dir);
    eval = eval < 1 ? 1 : eval > f->n - 1 ? f->n - 1 : eval;
    int32_t *order = malloc((size_t)f->n * sizeof(*order));
    bool *is_eval = calloc((size_t)f->n, sizeof(*is_eval));
    if (!order || !is_eval) {
        free(order);
        free(is_eval);
        return error_set(err, ERR_NOMEM, "%d images", f->n);
    }
    struct rng r;
    rng_seed(&r, (uint32_t)conf->seed);
    rng_permutation(&r, order, f->n);
    for (int32_t i = 0; i < eval; i++)
        is_eval[order[i]] = true;
    for (int32_t i = 0; i < f->n; i++)
        if (is_eval[i] != conf->is_train)
            files[kept++] = files[i];
    f->n = kept;
    free(order);
    free(is_eval);
    return 0;
}

static bool is_directory(const char *dir, const char *name)
{
    char path[PATH_MOST];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    return n > 0 && n < PATH_MOST && lstat(path, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

static int scan_all(struct scan *s, struct error *err)
{
    const struct folder_conf *conf = s->conf;
    bool has_train = is_directory(conf->dir, "train");
    bool has_val = is_directory(conf->dir, "val");
    struct stat st;
    if (stat(conf->dir, &st) < 0)
        return error_sys(err, errno, "%s", conf->dir);
    if (has_val && !has_train)
        return error_set(err, ERR_NOTFOUND, "%s: val, but no train", conf->dir);
    if (has_val && conf->split > 0)
        return error_set(err, ERR_INVAL,
                         "%s: there is a val directory: remove dataset.split",
                         conf->dir);
    if (!has_val && !(conf->split > 0))
        return error_set(err, ERR_INVAL,
                         "%s: no val directory: set dataset.split, such as "
                         "0.1, to keep a part of the images for evaluation",
                         conf->dir);
    const char *train = has_train ? "train" : "";
    if (scan_part(s, train, has_val && !conf->is_train ? "val" : train, err) <
        0)
        return -1;
    return conf->split > 0 ? take_share(s->f, conf, err) : 0;
}

int folder_open(const struct folder_conf *conf, struct folder *ret,
                struct error *err)
{
    struct folder f = {.dir = strdup(conf->dir)};
    struct scan s = {.conf = conf, .f = &f, .root = strlen(conf->dir) + 1};
    if (!f.dir)
        return error_set(err, ERR_NOMEM, "%s", conf->dir);
    int n = snprintf(s.path, sizeof(s.path), "%s", conf->dir);
    int rc = n < 0 || n >= PATH_MOST
                 ? error_set(err, ERR_INVAL, "the path is too long")
                 : scan_all(&s, err);
    if (rc < 0) {
        folder_clear(&f);
        return -1;
    }
    *ret = f;
    return 0;
}

void folder_clear(struct folder *f)
{
    if (!f)
        return;
    free(f->dir);
    buf_clear(&f->names);
    buf_clear(&f->list);
    memset(f, 0, sizeof(*f));
}

void folder_thin(struct folder *f, int32_t n)
{
    struct folder_file *files = folder_files(f);
    for (int32_t i = 0; i < n; i++)
        files[i] = files[(2 * (int64_t)i + 1) * f->n / (2 * (int64_t)n)];
    f->n = n;
}

struct folder_file *folder_files(const struct folder *f)
{
    return (struct folder_file *)(void *)f->list.data;
}

const char *folder_name(const struct folder *f, int32_t i)
{
    return f->names.data + folder_files(f)[i].name;
}

uint64_t folder_digest(const struct folder *f)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < f->n; i++)
        sum = crc64(sum, folder_name(f, i), strlen(folder_name(f, i)) + 1);
    return sum;
}
