/* one_line.c - see one_line.h. */
#include "scheduler/tools/submit/one_line.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int one_line_split(int argc, char **argv, char ***ret_words)
{
    *ret_words = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            *ret_words = argv + i + 1;
            return i;
        }
    return argc;
}

const char *one_line_program(char *const *words)
{
    const char *slash = strrchr(words[0], '/');
    return slash && slash[1] ? slash + 1 : words[0];
}

/* A JSON text, which YAML reads as the same one. */
static int add_text(struct buf *out, const char *text, struct error *err)
{
    json_t *s = json_string(text);
    char *quoted = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    json_decref(s);
    if (!quoted)
        return error_set(err, ERR_INVAL, "'%.60s' is not UTF-8", text);
    int rc = buf_addstr(out, quoted, err);
    free(quoted);
    return rc;
}

/* The command was typed for a program, not for us: "${" gets the dollar that
 * keeps it. */
static int add_word(struct buf *out, const char *word, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = 0;
    for (const char *p = word; rc == 0 && *p;) {
        const char *dollar = strstr(p, "${");
        size_t len = dollar ? (size_t)(dollar - p) : strlen(p);
        rc = buf_add(&b, p, len, err);
        if (rc == 0 && dollar)
            rc = buf_addstr(&b, "$${", err);
        p += len + (dollar ? 2 : 0);
    }
    if (rc == 0)
        rc = add_text(out, buf_str(&b), err);
    buf_clear(&b);
    return rc;
}

static int add_workdir(struct buf *out, struct error *err)
{
    char here[PATH_MAX];
    if (!getcwd(here, sizeof(here)) && errno == ENOENT)
        return error_set(err, ERR_NOTFOUND,
                         "the program would run in the working directory, "
                         "which has been removed: change to one that exists");
    if (!getcwd(here, sizeof(here)))
        return error_sys(err, errno, "the working directory");
    return buf_addstr(out, "workdir: ", err) < 0 ||
                   add_word(out, here, err) < 0 ||
                   buf_addstr(out, "\n", err) < 0
               ? -1
               : 0;
}

int one_line_spec(char *const *words, struct buf *out, struct error *err)
{
    if (!words[0] || !*words[0])
        return error_set(err, ERR_USAGE,
                         "no program follows --, as in -- python train.py");
    if (buf_addstr(out, "version: 1\nkind: command\n", err) < 0 ||
        add_workdir(out, err) < 0 ||
        buf_addstr(out, "env_passthrough: [PATH]\ncommand: [", err) < 0)
        return -1;
    for (int i = 0; words[i]; i++)
        if ((i > 0 && buf_addstr(out, ", ", err) < 0) ||
            add_word(out, words[i], err) < 0)
            return -1;
    return buf_addstr(out, "]\n", err);
}
