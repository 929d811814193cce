/* retry_rule.h - rules that choose the action after an attempt ends.
 *
 * "WHAT:WHICH ACTION": WHAT is `exit` with a code or a range, `signal` with a
 * name, or `reason` with a pattern for the reason of its end; ACTION is
 * `retry`, `exclude_node` (a retry elsewhere) or `fail`.
 *
 *   exit:75 retry     signal:BUS exclude_node     reason:*out of memory*
 * fail */
#ifndef MGPU_JOBS_SPEC_RETRY_RULE_H
#define MGPU_JOBS_SPEC_RETRY_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum rule_kind { RULE_EXIT, RULE_SIGNAL, RULE_REASON };
enum rule_action { RULE_NONE, RULE_RETRY, RULE_EXCLUDE, RULE_FAIL };

enum {
    RULE_PATTERN_CAP = 96,
    RULES_MAX = 16 /* per job */
};

struct rule {
    enum rule_kind kind;
    enum rule_action action;
    int32_t lo, hi; /* codes, or a signal twice */
    char pattern[RULE_PATTERN_CAP];
};

/* err  ERR_INVAL with the allowed syntax */
int rule_parse(const char *text, struct rule *ret,
               struct error *err) MUST_CHECK;

/* How an attempt ended; signal 0: without a signal. */
struct rule_end {
    int32_t exit_code, signal;
    const char *reason;
};

/* The action of the first matching rule; one rule per line.
 * in   rules  NULL: none */
enum rule_action rules_say(const char *rules, const struct rule_end *end);

#endif
