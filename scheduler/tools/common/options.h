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
    int id;           /* what on() switches over; > 0 */
    char letter;      /* 0: none */
    const char *name; /* without the dashes */
    const char *arg;  /* "FILE"; "[=FILE]": may be left out, on() gets NULL
                         then; NULL: takes none */
    const char *doc;  /* one line, no full stop */
};

struct tool {
    const char *name;
    const char *synopsis; /* what follows the name in the usage line */
    const char *summary;
    const struct opt *opts; /* ends with id 0 */
    int section;            /* of its manual page; 0: 1 */
    const struct opt
        *gone; /* NULL, or removed options: doc names the way now */
};

/* What tools have alike: rows for their tables, and where it goes. A tool's own
 * ids are smaller. */
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
    const char *url; /* NULL: as client_create() has it */
    bool json, quiet;
};
/* False: the option is none of these. */
bool options_common(struct option_common *c, int id, const char *value);

enum { OPTIONS_RUN = 0, OPTIONS_DONE = 1 };

/* Calls on() for each option in order; operands may stand among them, and
 * argv is permuted so that they are argv[*ret_operand] .. argv[argc - 1].
 * A value is argv's own string: valid to the end.
 *
 * returns OPTIONS_RUN, or OPTIONS_DONE after --help or --version (printed),
 *         or -1
 * err  ERR_USAGE with a suggestion; or what on() said
 */
int options_parse(const struct tool *t, int argc, char **argv,
                  int (*on)(void *arg, const struct opt *o, const char *value,
                            struct error *err),
                  void *arg, int *ret_operand, struct error *err) MUST_CHECK;

/* The decimal id of a job. err ERR_USAGE names what is allowed */
int options_job_id(const char *text, unsigned long long *ret,
                   struct error *err) MUST_CHECK;

/* A job as people name it: "123", or "123_4" for task 4 of sweep 123; the
 * daemon takes both as they are. err ERR_USAGE names what is allowed */
int options_job_word(const char *text, struct error *err) MUST_CHECK;

/* The value of option `name` as seconds. err ERR_USAGE */
int options_duration(const char *name, const char *value, double *ret_s,
                     struct error *err) MUST_CHECK;

#endif
