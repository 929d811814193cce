/* cells.h - read the cells of a reply with rows of the daemon's:
 * {"columns":[..],"rows":[[..],..]}. */
#ifndef MGPU_JOBS_WIRE_CELLS_H
#define MGPU_JOBS_WIRE_CELLS_H

#include <jansson.h>
#include <stdbool.h>

/* The index of a column, or -1. */
int cells_column(const json_t *reply, const char *name);
/* "Infinity" and "-Infinity" are numbers, too; NAN when absent or null. */
double cells_number(const json_t *v);
double show_cell(const json_t *row, int column);
/* Whether any row has a number there. */
bool cells_has(const json_t *reply, const char *name);

#endif
