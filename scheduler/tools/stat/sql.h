/* sql.h - a SELECT over the views of mgpu-db(5), which the daemon reads. */
#ifndef MGPU_SCHEDULER_TOOLS_STAT_SQL_H
#define MGPU_SCHEDULER_TOOLS_STAT_SQL_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

/* mgpu.sql/1.
 * in   count      no more rows; 0: as many as is usual
 *      timeout_s  stopped after so long; 0: as is usual
 * own  *ret: json_decref() */
int sql_ask(struct client *c, const char *text, unsigned long long count,
            double timeout_s, json_t **ret, struct error *err) MUST_CHECK;

/* As a table, and as CSV of RFC 4180. */
int show_sql(const struct show_conf *s, const json_t *reply,
             struct error *err) MUST_CHECK;
int sql_csv(const struct show_conf *s, const json_t *reply, FILE *out,
            struct error *err) MUST_CHECK;

#endif
