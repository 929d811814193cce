/* size_choice.h - the sizes among which goodput chooses, as JSON and in words.
 */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_SIZE_CHOICE_H
#define MGPU_SCHEDULER_CTLD_REQUEST_SIZE_CHOICE_H

#include <jansson.h>

#include "jobs/base/buf.h"
#include "scheduler/engine/explain_sizes.h"

struct ctld;

struct size_table {
    struct goodput_row *rows; /* owned; [n] */
    size_t n, cap;
    double price; /* as goodput_explain() has it */
    bool is_short;
};
/* Empty under another policy. err  as engine_explain_sizes() */
int size_table_read(const struct ctld *c, struct size_table *ret,
                    struct error *err) MUST_CHECK;
void size_table_clear(struct size_table *t);
/* An array; of job 0, of all. */
json_t *size_table_json(const struct size_table *t, uint64_t job);
/* "2 GPUs, not 4: the last 2 would add 18 % to this job and 61 % to job 14;
 * 0.71 measured efficiency at 2 (312 iterations), 0.44 fitted at 4". For a job
 * whose resizes of the hour keep it from growing: so, and when it may. For a
 * job that waits: "it starts when a GPU is worth less than ... to others".
 * If its time limit leaves sizes out: the first that is long enough. Nothing
 * for a job that has no sizes. err  ERR_NOMEM */
int size_table_say(const struct size_table *t, uint64_t job, struct buf *out,
                   struct error *err) MUST_CHECK;

#endif
