/* metric_line.h - parse the members of one line of metrics; for jobs/ alone. */
#ifndef MGPU_JOBS_WIRE_METRIC_LINE_H
#define MGPU_JOBS_WIRE_METRIC_LINE_H

#include <stdbool.h>

#include "jobs/wire/metric_rows.h"

enum {
    METRIC_MEMBERS_CAP = 128
}; /* the columns, and 100 metrics of the
    * job's own */

struct metric_member {
    char name[METRIC_NAME_CAP];
    double value; /* NaN for null */
};

/* "iteration", "rank", "epoch": they say which row a line is. */
bool metric_is_line_key(const char *name);
void metric_ignore(struct metric_ignored *io, const char *name,
                   const char *why);

/* Parses a flat object of numbers and nulls; names are UTF-8, 1 to 64 bytes.
 * One member, "profile", may be a text with the same limits.
 * out  ret_profile  "": none; it is not among the members
 *      ignored      io: gains the members that are something else
 * err ERR_INVAL any other input; ERR_LIMIT more members than the array */
int metric_members_read(const char *line, size_t len,
                        struct metric_member members[METRIC_MEMBERS_CAP],
                        size_t *ret_n, char ret_profile[METRIC_NAME_CAP],
                        struct metric_ignored *ignored,
                        struct error *err) MUST_CHECK;

#endif
