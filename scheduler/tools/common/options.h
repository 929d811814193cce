/* options.h - a tool's command line as one table.
 *
 * The parser, --help and the shell completion read the same rows, and
 * tests/cli/pages.bats holds the man page against them. Every tool has
 * --help and --version without listing them.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_OPTIONS_H
#define MGPU_SCHEDULER_TOOLS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

struct opt {
    int id;           /* passed to on(); > 0 */
    char letter;      /* 0: none */
    const char *name; /* without the dashes */
    const char *arg;  /* "FILE"; "[=FILE]": optional, then on() gets NULL;
                         NULL: no value */
    const char *doc;  /* one line, no full stop */
};

struct tool {
    const char *name;
    const char *synopsis; /* follows the name in the usage line */
    const char *summary;
    const struct opt *opts; /* ends with id 0 */
    int section;            /* section of its manual page; 0: 1 */
};

/* The options that all tools share, and their values. The ids of a tool's own
 * options are smaller. */
enum { OPTION_JSON = 240, OPTION_QUIET, OPTION_URL };
#define OPTION_ROW_JSON                                             \
    {                                                               \
        OPTION_JSON, 0, "json", NULL, "print JSON, errors included" \
    }
#define OPTION_ROW_QUIET                                                  \
    {                                                                     \
        OPTION_QUIET, 'q', "quiet", NULL, "say nothing of what went well" \
    }
#define OPTION_ROW_URL                                     \
    {                                                      \
        OPTION_URL, 0, "url", "URL",                       \
            "the daemon, as unix:PATH or http://HOST:PORT" \
    }
struct option_common {
    const char *url; /* NULL: the default of client_create() */
    bool json, quiet;
};
/* False: it is not one of these options. */
bool options_common(struct option_common *c, int id, const char *value);

enum { OPTIONS_RUN = 0, OPTIONS_DONE = 1 };

/* Calls on() for each option in order. Operands may be mixed with options; argv
 * is permuted so that they are argv[*ret_operand] .. argv[argc - 1]. A value
 * points into argv: valid to the end.
 *
 * returns OPTIONS_RUN, or OPTIONS_DONE after --help or --version (printed),
 *         or -1
 * err  ERR_USAGE with a suggestion; or the error of on() */
int options_parse(const struct tool *t, int argc, char **argv,
                  int (*on)(void *arg, const struct opt *o, const char *value,
                            struct error *err),
                  void *arg, int *ret_operand, struct error *err) MUST_CHECK;

/* Parses the decimal id of a job. err ERR_USAGE names what is allowed */
int options_job_id(const char *text, unsigned long long *ret,
                   struct error *err) MUST_CHECK;

/* Checks the name of a job: "123", or "123_4" for task 4 of sweep 123; the
 * daemon accepts both. err ERR_USAGE names what is allowed */
int options_job_word(const char *text, struct error *err) MUST_CHECK;

/* Parses the value of option `name` into seconds. err ERR_USAGE */
int options_duration(const char *name, const char *value, double *ret_s,
                     struct error *err) MUST_CHECK;

#endif
