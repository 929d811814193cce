/* rank_lines.c - a small state machine over labels and lines; see
 * rank_lines.h. */
#include "jobs/log/rank_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t rank_lines_label(int32_t rank, char ret[LOGLINES_LABEL_CAP])
{
    int n = snprintf(ret, LOGLINES_LABEL_CAP, "[%" PRId32 "] ", rank);
    return n > 0 ? (size_t)n : 0;
}

void rank_lines_gap(struct rank_lines *l)
{
    l->state = LINE_LEFT_OUT;
    l->n = 0;
}

size_t rank_lines_take(struct rank_lines *l, char *p, size_t n)
{
    char mine[LOGLINES_LABEL_CAP];
    size_t len = rank_lines_label(l->rank, mine), kept = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (l->state == LINE_BEGINS && c == mine[l->n]) {
            if (++l->n == len)
                l->state = LINE_SHOWN;
            continue;
        }
        if (l->state == LINE_BEGINS)
            l->state = LINE_LEFT_OUT;
        if (l->state == LINE_SHOWN)
            p[kept++] = c;
        if (c == '\n') {
            l->state = LINE_BEGINS;
            l->n = 0;
        }
    }
    return kept;
}
