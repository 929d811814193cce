/* retry_rule.c - parse and match retry rules; see retry_rule.h. */
#include "jobs/spec/retry_rule.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNALS_MAX = 65, TEXT_CAP = 160 };

static int parse_code(const char **io_at, int32_t *ret)
{
    char *end = NULL;
    if (**io_at < '0' || **io_at > '9')
        return -1;
    long n = strtol(*io_at, &end, 10);
    if (n > 255)
        return -1;
    *io_at = end;
    *ret = (int32_t)n;
    return 0;
}

/* "3" or "64-78"; 0 is not a failure. */
static int parse_codes(const char *text, struct rule *r, struct error *err)
{
    const char *at = text;
    int rc = parse_code(&at, &r->lo);
    r->hi = r->lo;
    if (rc == 0 && *at == '-') {
        at++;
        rc = parse_code(&at, &r->hi);
    }
    if (rc < 0 || *at || r->lo < 1 || r->hi < r->lo)
        return error_set(err, ERR_INVAL,
                         "'%.40s': expected a code 1..255, or two as in 64-78",
                         text);
    return 0;
}

static int parse_signal(const char *text, struct rule *r, struct error *err)
{
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (int32_t i = 1; i < SIGNALS_MAX; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0) {
            r->lo = r->hi = i;
            return 0;
        }
    }
    return error_set(err, ERR_INVAL,
                     "'%.40s': expected a signal, as in signal:KILL", text);
}

static int parse_pattern(const char *text, struct rule *r, struct error *err)
{
    if (!*text || strlen(text) >= sizeof(r->pattern))
        return error_set(err, ERR_INVAL,
                         "a pattern is 1 to %zu characters, * for any text",
                         sizeof(r->pattern) - 1);
    memcpy(r->pattern, text, strlen(text) + 1);
    return 0;
}

static int parse_action(const char *word, enum rule_action *ret,
                        struct error *err)
{
    static const char *const words[] = {[RULE_RETRY] = "retry",
                                        [RULE_EXCLUDE] = "exclude_node",
                                        [RULE_FAIL] = "fail"};
    for (int i = RULE_RETRY; i <= RULE_FAIL; i++) {
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum rule_action)i;
            return 0;
        }
    }
    return error_set(err, ERR_INVAL,
                     "'%.40s': expected retry, exclude_node or fail", word);
}

int rule_parse(const char *text, struct rule *ret, struct error *err)
{
    static const struct {
        const char *word;
        enum rule_kind kind;
        int (*parse)(const char *text, struct rule *r, struct error *err);
    } kinds[] = {{"exit:", RULE_EXIT, parse_codes},
                 {"signal:", RULE_SIGNAL, parse_signal},
                 {"reason:", RULE_REASON, parse_pattern}};
    char copy[TEXT_CAP];
    struct rule r = {.lo = 0};
    size_t len = strlen(text);

    if (len >= sizeof(copy) || strpbrk(text, "\n\r"))
        return error_set(err, ERR_INVAL, "a rule is one line of at most %zu",
                         sizeof(copy) - 1);
    memcpy(copy, text, len + 1);
    char *blank = strrchr(copy, ' ');
    if (!blank || blank == copy)
        return error_set(err, ERR_INVAL,
                         "'%.40s': expected WHAT:WHICH ACTION, as in 'exit:75 "
                         "retry'",
                         text);
    if (parse_action(blank + 1, &r.action, err) < 0)
        return -1;
    while (blank > copy && blank[-1] == ' ')
        blank--;
    *blank = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t n = strlen(kinds[i].word);
        if (strncmp(copy, kinds[i].word, n) != 0)
            continue;
        r.kind = kinds[i].kind;
        if (kinds[i].parse(copy + n, &r, err) < 0)
            return -1;
        *ret = r;
        return 0;
    }
    return error_set(err, ERR_INVAL,
                     "'%.40s': expected exit:, signal: or reason:", text);
}

/* '*' matches any text, '?' any byte; time is the product of both lengths. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool fits(const struct rule *r, const struct rule_end *end)
{
    switch (r->kind) {
    case RULE_EXIT:
        return end->signal == 0 && end->exit_code >= r->lo &&
               end->exit_code <= r->hi;
    case RULE_SIGNAL:
        return end->signal == r->lo;
    case RULE_REASON:
        return matches(r->pattern, end->reason);
    }
    return false;
}

enum rule_action rules_say(const char *rules, const struct rule_end *end)
{
    char line[TEXT_CAP];
    for (const char *at = rules; at && *at;) {
        size_t len = strcspn(at, "\n");
        struct rule r;
        if (len < sizeof(line)) {
            memcpy(line, at, len);
            line[len] = '\0';
            if (rule_parse(line, &r, NULL) == 0 && fits(&r, end))
                return r.action;
        }
        at += len + (at[len] == '\n');
    }
    return RULE_NONE;
}
