/* admin_log.c - print the audit log of administrators; see admin_log.h.
 *
 * An entry of an older daemon, which had other details, is printed as it is.
 */
#include "scheduler/tools/admin/admin_log.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"

enum { TEXT_CAP = 1200 };

char *admin_who(int64_t uid, char *out, size_t cap)
{
    const struct passwd *pw = uid >= 0 ? getpwuid((uid_t)uid) : NULL;
    char name[200];
    (void)snprintf(out, cap, "uid %" PRId64 "%s%s%s", uid, pw ? " (" : "",
                   pw ? render_escape(pw->pw_name, name, sizeof(name)) : "",
                   pw ? ")" : "");
    return out;
}

static void print_until(const json_t *change)
{
    const json_t *until = json_object_get(change, "until_s");
    char text[40] = "";
    struct tm tm;
    if (!json_is_number(until))
        return;
    time_t at = (time_t)json_number_value(until);
    if (gmtime_r(&at, &tm))
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    printf(" until %s", text);
}

/* {KEY: {"old": .., "value": ..}} */
static const char *print_changes(const char *sep, const json_t *set,
                                 const char *end)
{
    char a[TEXT_CAP], b[TEXT_CAP], c[TEXT_CAP];
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)set, key, v)
    {
        printf("%s%s: %s -> %s", sep, render_escape(key, c, sizeof(c)),
               render_escape(field_str(v, "old"), a, sizeof(a)),
               *field_str(v, "value")
                   ? render_escape(field_str(v, "value"), b, sizeof(b))
                   : "value of mgpu.yaml");
        print_until(v);
        printf("%s", end);
        sep = ", ";
    }
    return sep;
}

static const char *print_word(const char *sep, const char *what,
                              const char *text)
{
    char safe[TEXT_CAP];
    if (!*text)
        return sep;
    printf("%s%s%s", sep, what, render_escape(text, safe, sizeof(safe)));
    return ", ";
}

static const char *print_member(const char *sep, const json_t *detail,
                                const char *key, const json_t *v)
{
    static const char *const words[][2] = {
        {"node", ""},
        {"dir", ""},
        {"why", "why: "},
        {"old", "not: "},
        {"failed", "failed: "},
        {"by", "by "},
        {"after_restart", "after a restart: "},
    };
    char safe[TEXT_CAP];
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(key, words[i][0]) == 0 &&
            (json_is_string(v) || json_is_null(v)))
            return print_word(sep, words[i][1], field_str(detail, key));
    if (strcmp(key, "set") == 0)
        return print_changes(sep, v, "");
    if (strcmp(key, "unset") == 0)
        return print_changes(sep, v, " (reset)");
    if (strcmp(key, "changed") == 0)
        return json_object_get(detail, "set")
                   ? sep
                   : print_word(sep, "changed: ", field_str(detail, key));
    char *text =
        json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    printf("%s%s: %s", sep, key,
           render_escape(text ? text : "", safe, sizeof(safe)));
    free(text);
    return ", ";
}

void admin_print_action(const json_t *action)
{
    const json_t *detail = json_object_get(action, "detail");
    const char *key, *sep = "  ";
    char who[240], word[80];
    json_t *v;
    printf("%s  %-14s  %-6s", field_str(action, "at"),
           admin_who(field_int(action, "uid", -1), who, sizeof(who)),
           render_escape(field_str(action, "do"), word, sizeof(word)));
    json_object_foreach((json_t *)detail, key, v)
    {
        sep = print_member(sep, detail, key, v);
    }
    printf("\n");
}
