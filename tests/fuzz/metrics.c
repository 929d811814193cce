/* metrics.c - any bytes as a line of metrics; each row that comes out is
 * written and read back to the same. */
#include "jobs/wire/metric_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { CAP = 24 };

static void round_trip(const struct metric_row *row)
{
    struct buf one = BUF_INIT, two = BUF_INIT;
    struct metric_row back[2];
    size_t n = 0;
    struct error err = ERROR_INIT;
    if (metric_row_encode(row, &one, &err) < 0 ||
        metric_line_decode(one.data, one.len, -1, back, 2, &n, &err) < 0 ||
        n != 1 || metric_row_encode(&back[0], &two, &err) < 0)
        abort();
    if (strcmp(one.data, two.data) != 0)
        abort();
    buf_clear(&one);
    buf_clear(&two);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct metric_row rows[CAP];
    size_t n = CAP + 1;
    struct error err = ERROR_INIT;
    char *line = malloc(size + 1);
    if (!line)
        return 0;
    if (size > 0)
        memcpy(line, data, size);
    if (metric_line_decode(line, size, 0, rows, CAP, &n, &err) == 0) {
        if (n > CAP)
            abort();
        for (size_t i = 0; i < n; i++)
            round_trip(&rows[i]);
    } else if (n != CAP + 1 || (err.code != ERR_INVAL && err.code != ERR_LIMIT))
        abort();
    free(line);
    return 0;
}
