/* mpirun_report.c - recognize mpirun's report on a failed rank; see
 * mpirun_report.h. */
#include "slurm/launch/mpirun_report.h"

#include <string.h>

/* The longest report of PRRTE 3.0.8 has eight lines: a block without an end is
 * something else. */
enum { LINES_MAX = 12 };

/* libevent's in prterun, when a rank's pipe closes while it is at it. */
static const char WARNING[] = "[warn] Epoll ";

static bool is_rule(const char *line, size_t n)
{
    return n == sizeof(MPIRUN_REPORT_RULE) - 1 &&
           memcmp(line, MPIRUN_REPORT_RULE, n) == 0;
}

/* Whether a report begins with this line. Its first word is the name by which
 * the program was called. */
static bool begins_report(const char *line, size_t n)
{
    static const char *const texts[] = {
        " detected that one or more processes exited with non-zero status",
        " noticed that process rank ",
        " has exited due to process rank ",
    };
    const char *blank = memchr(line, ' ', n);
    size_t rest = blank ? n - (size_t)(blank - line) : 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t want = strlen(texts[i]);
        if (rest >= want && memcmp(blank, texts[i], want) == 0)
            return true;
    }
    return false;
}

bool mpirun_report_drop(struct mpirun_report *r, const char *line, size_t n,
                        bool *has_rule)
{
    bool is_end = is_rule(line, n);
    *has_rule = false;
    if (n > sizeof(WARNING) && memcmp(line, WARNING, sizeof(WARNING) - 1) == 0)
        return true;
    if (r->state == MPIRUN_REPORT_IN) {
        if (is_end || ++r->lines == LINES_MAX)
            r->state = MPIRUN_REPORT_NONE;
        return true;
    }
    if (r->state == MPIRUN_REPORT_RULED && begins_report(line, n)) {
        *r = (struct mpirun_report){.state = MPIRUN_REPORT_IN, .lines = 1};
        return true;
    }
    *has_rule = r->state == MPIRUN_REPORT_RULED;
    r->state = is_end ? MPIRUN_REPORT_RULED : MPIRUN_REPORT_NONE;
    return is_end;
}
