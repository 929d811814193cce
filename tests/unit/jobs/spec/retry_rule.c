/* retry_rule.c - retry.rules: what is one, and which end it fits. */
#include <signal.h>
#include <string.h>

#include "jobs/spec/retry_rule.h"
#include "tests/tap.h"

static void test_parse(void)
{
    static const char *const bad[] = {
        "",
        "exit:75",
        "retry",
        "exit: retry",
        "exit:0 fail",
        "exit:256 fail",
        "exit:5-3 fail",
        "exit:5- fail",
        "exit:x fail",
        "signal:FOO retry",
        "signal:9 retry",
        "reason: fail",
        "code:3 fail",
        "exit:3 again",
        " fail",
        "exit:3\nfail x",
    };
    char longest[300];
    struct rule r;
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(rule_parse(bad[i], &r, &err) < 0 && err.code == ERR_INVAL,
           "no rule: %s: %s", bad[i], err.msg);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    ok(rule_parse(longest, &r, &err) < 0, "nor is a long text");
    memcpy(longest, "reason:", 7);
    memcpy(longest + 7 + RULE_PATTERN_CAP, " fail", 6);
    ok(rule_parse(longest, &r, &err) < 0, "nor a long pattern: %s", err.msg);
    memcpy(longest + 6 + RULE_PATTERN_CAP, " fail", 6);
    ok(rule_parse(longest, &r, &err) == 0 &&
           strlen(r.pattern) == RULE_PATTERN_CAP - 1,
       "but the longest");
    ok(rule_parse("exit:64-78  exclude_node", &r, &err) == 0 && r.lo == 64 &&
           r.hi == 78 && r.kind == RULE_EXIT && r.action == RULE_EXCLUDE,
       "codes");
    ok(rule_parse("signal:SIGBUS fail", &r, &err) == 0 && r.lo == SIGBUS,
       "a signal by its long name");
}

static enum rule_action say(const char *rules, int32_t code, int32_t signal,
                            const char *reason)
{
    const struct rule_end end = {code, signal, reason};
    return rules_say(rules, &end);
}

static void test_fits(void)
{
    static const char rules[] = "exit:75 retry\nexit:70-79 fail\n"
                                "signal:KILL exclude_node\n"
                                "reason:*out of memory* fail\nreason:a?c retry";
    is_int(say(rules, 75, 0, "x"), RULE_RETRY, "the first that fits");
    is_int(say(rules, 76, 0, "x"), RULE_FAIL, "then the next");
    is_int(say(rules, 80, 0, "x"), RULE_NONE, "or none");
    is_int(say(rules, 75, 11, "x"), RULE_NONE, "a signal is no code");
    is_int(say(rules, -1, 9, "x"), RULE_EXCLUDE, "a signal");
    is_int(say(rules, 1, 0, "CUDA: out of memory, 3 GiB"), RULE_FAIL, "words");
    is_int(say(rules, 1, 0, "out of memo"), RULE_NONE, "not quite");
    is_int(say(rules, 1, 0, "abc"), RULE_RETRY, "any character");
    is_int(say(rules, 1, 0, "ac"), RULE_NONE, "but one");
    is_int(say(NULL, 1, 0, "x"), RULE_NONE, "without rules");
    is_int(say("reason:* fail", 1, 0, ""), RULE_FAIL, "* is nothing, too");
    is_int(say("reason:*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b fail", 1, 0,
               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
           RULE_NONE, "many stars take no time");
}

int main(void)
{
    test_parse();
    test_fits();
    return tap_done();
}
