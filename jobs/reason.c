/* reason.c - find the token at the beginning of a reason; see reason.h. */
#include "jobs/reason.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t reason_token_length(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "abcdefghijklmnopqrstuvwxyz");
    bool is_token = *text >= 'A' && *text <= 'Z' && n < REASON_TOKEN_CAP &&
                    (text[n] == ':' || text[n] == '(');
    return is_token ? n : 0;
}

void reason_token(const char *reason, char ret[REASON_TOKEN_CAP])
{
    size_t n = reason_token_length(reason);
    if (n > 0)
        (void)snprintf(ret, REASON_TOKEN_CAP, "%.*s", (int)n, reason);
    else
        (void)snprintf(ret, REASON_TOKEN_CAP, "%s",
                       *reason == '\0'                     ? "PendingEvaluation"
                       : strncmp(reason, "retry ", 6) == 0 ? "Retry"
                                                           : "Requeued");
}
