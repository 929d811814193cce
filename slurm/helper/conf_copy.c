/* conf_copy.c - copy slurm.conf to a memfd and append MessageTimeout; see
 * conf_copy.h. */
#include "slurm/helper/conf_copy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static const char blanks[] = " \t";

/* The value after `word` and its separator; NULL: another key. */
static const char *value_of(const char *line, const char *end, const char *word,
                            const char *separators)
{
    size_t n = strlen(word);
    line += strspn(line, blanks);
    if (line + n >= end || strncasecmp(line, word, n) != 0 ||
        !strchr(separators, line[n]))
        return NULL;
    line += n;
    return line + strspn(line, separators);
}

static int add_line(const char *line, const char *end, const char *dir,
                    bool is_continued, struct buf *out, struct error *err)
{
    const char *file = value_of(line, end, "Include", blanks);
    if (!is_continued && value_of(line, end, "MessageTimeout", " \t="))
        return 0;
    if (!is_continued && file != NULL && *file != '/')
        return buf_addf(out, err, "Include %s/%.*s", dir, (int)(end - file),
                        file);
    return buf_add(out, line, (size_t)(end - line), err);
}

int conf_copy_text(const char *text, const char *dir, int timeout_s,
                   struct buf *out, struct error *err)
{
    bool is_continued = false;
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        end += *end == '\n';
        if (add_line(text, end, dir, is_continued, out, err) < 0)
            return -1;
        is_continued = end - text >= 2 && end[-1] == '\n' && end[-2] == '\\';
        text = end;
    }
    /* The last value counts, including those of included files. */
    return buf_addf(out, err, "\nMessageTimeout=%d\n", timeout_s);
}

static int to_memfd(const struct buf *b, struct error *err)
{
    int fd = memfd_create("slurm.conf", 0); /* not MFD_CLOEXEC: children open
                                             * it by its path */
    if (fd < 0)
        return error_sys(err, errno, "make a file in memory");
    for (size_t at = 0; at < b->len;) {
        ssize_t n = write(fd, b->data + at, b->len - at);
        if (n < 0) {
            int saved = errno;
            (void)close(fd);
            return error_sys(err, saved, "copy slurm.conf");
        }
        at += (size_t)n;
    }
    return fd;
}

int conf_copy(const char *path, int timeout_s, int *ret_fd, struct error *err)
{
    enum { MAX_BYTES = 64 << 20 };
    struct buf in = BUF_INIT;
    struct buf out = BUF_INIT;
    char dir[4096];
    int fd = -1;
    const char *slash = strrchr(path, '/');
    if (slash == NULL || path[0] != '/' ||
        (size_t)(slash - path) >= sizeof(dir))
        return error_set(err, ERR_CONFIG, "'%s' is not an absolute path", path);
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    if (buf_read_file(&in, path, MAX_BYTES, err) == 0 &&
        conf_copy_text(buf_str(&in), dir, timeout_s, &out, err) == 0)
        fd = to_memfd(&out, err);
    buf_clear(&in);
    buf_clear(&out);
    if (fd < 0)
        return -1;
    *ret_fd = fd;
    return 0;
}
