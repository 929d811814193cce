/* data_rows.c - any bytes as the rows of a file: JSON, CSV or TSV, packed by
 * gzip or not. Rows are numbered one by one, texts are UTF-8 without a NUL, and
 * what is wrong has a message.
 *
 * The first byte chooses the form, and whether bad rows are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/data/rows/json_rows.h"
#include "worker/data/rows/table_rows.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct seen {
    int32_t taken, last;
    bool table;
};

static void need(bool holds)
{
    if (!holds)
        abort();
}

/* Refuses every third row. */
static int take(void *arg, const json_t *row, struct row_place place,
                struct error *err)
{
    struct seen *s = arg;
    need(place.number > s->last);
    s->last = place.number;
    s->taken++;
    json_t *columns = (json_t *)(uintptr_t)row;
    for (void *i = json_object_iter(columns); i;
         i = json_object_iter_next(columns, i)) {
        const json_t *v = json_object_iter_value(i);
        need(!s->table ||
             strlen(json_string_value(v)) == json_string_length(v));
    }
    return s->taken % 3 == 0 ? error_set(err, ERR_INVAL, "third") : 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct gz_stream s;
    struct seen seen = {.taken = 0};
    char path[64];
    if (size < 1)
        return 0;
    int fd = memfd_create("rows", MFD_CLOEXEC);
    need(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct row_sink to = {.take = take,
                          .arg = &seen,
                          .skip_bad = data[0] & 4,
                          .most = data[0] & 8 ? 2 : 0,
                          .path = path,
                          .place = {.number = 1}};
    seen.table = data[0] & 1;
    if (gz_stream_open(&s, path, &err) == 0) {
        int rc = seen.table
                     ? table_rows_read(&s, data[0] & 2 ? '\t' : ',', &to, &err)
                     : json_rows_read(&s, &to, &err);
        need(rc == 0 || (err.code != ERR_NONE && err.msg[0] != '\0'));
        need(to.skip_bad || to.skipped.n == 0);
        need(to.most == 0 || to.rows <= to.most);
        need(rc < 0 || to.rows >= seen.taken);
        gz_stream_close(&s);
    } else {
        need(err.code != ERR_NONE);
    }
    (void)close(fd);
    return 0;
}
