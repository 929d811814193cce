/* recorded.h - compare a codec with what it answered when a file was recorded.
 *
 * tests/golden/codec/NAME has pairs of lines: a text, and the outcome: what it
 * is when it is read and written again, or the error. Bytes must be equal. With
 * MGPU_RECORD=1 the file is written anew, for a change that is intended. */
#ifndef MGPU_TESTS_RECORDED_H
#define MGPU_TESTS_RECORDED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

/* Appends one line without its newline. */
typedef void recorded_f(const char *text, size_t len, struct buf *ret);

/* What a reader or a writer returned; a good text is appended already. */
static inline void recorded_error(struct buf *ret, const struct error *err)
{
    if (buf_addf(ret, NULL, "%s: %s", error_word(err->code), err->msg) < 0)
        abort();
}

/* The next line of *io, NUL in place of its newline; NULL: there is none. */
static inline char *recorded_line(char **io)
{
    char *line = *io, *end = strchr(line, '\n');
    if (end == NULL)
        return NULL;
    *end = '\0';
    *io = end + 1;
    return line;
}

static inline void recorded(const char *name, size_t min_pairs,
                            recorded_f *outcome)
{
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    struct buf all = BUF_INIT, got = BUF_INIT;
    char path[400];
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "%s/tests/golden/codec/%s",
                   src ? src : ".", name);
    if (!ok(buf_read_file(&all, path, 1 << 20, &err) == 0, "%s: %s", path,
            err.msg))
        return;
    char *at = all.data, *text, *wanted;
    FILE *f = getenv("MGPU_RECORD") ? fopen(path, "w") : NULL;
    while ((text = recorded_line(&at)) && (wanted = recorded_line(&at))) {
        buf_reset(&got);
        outcome(text, strlen(text), &got);
        if (f)
            (void)fprintf(f, "%s\n%s\n", text, buf_str(&got));
        else if (!ok(strcmp(buf_str(&got), wanted) == 0, "%s %zu: %.60s", name,
                     ++n, wanted))
            tap_diag("of %s\n is %s\nnot %s", text, buf_str(&got), wanted);
    }
    if (f)
        (void)fclose(f);
    else
        ok(n >= min_pairs, "%s: %zu of at least %zu pairs", name, n, min_pairs);
    buf_clear(&all);
    buf_clear(&got);
}

#endif
