/* name_pattern.h - a key of PEFT's rank_pattern and alpha_pattern, and of
 * layers_pattern: an expression for the end of a module's name.
 *
 * PEFT matches "(.*\.)?(KEY)$" from the beginning of the name, with Python's
 * syntax. Here that is a POSIX expression: . * + ? | ( ) [ ] ^ $, \d, \w, \s,
 * (?: ), and a backslash before punctuation; *?, +? and ?? match the same
 * names as *, + and ?.
 */
#ifndef MGPU_WORKER_LLM_FILES_NAME_PATTERN_H
#define MGPU_WORKER_LLM_FILES_NAME_PATTERN_H

#include <regex.h>
#include <stdbool.h>

#include "jobs/base/error.h"

enum { NAME_PATTERN_CAP = 256 };
struct name_pattern {
    char key[NAME_PATTERN_CAP]; /* of letters, digits, _ and . alone */
    bool is_plain;              /* key is used; else regex is */
    regex_t regex;
};

/* err  ERR_INVAL not an expression, one that is too long, or one with what is
 *      not listed above: counts {n}, look-around, back references, flags */
int name_pattern_open(const char *key, struct name_pattern *ret,
                      struct error *err) MUST_CHECK;
bool name_pattern_matches(const struct name_pattern *p, const char *name);
void name_pattern_close(struct name_pattern *p);

#endif
