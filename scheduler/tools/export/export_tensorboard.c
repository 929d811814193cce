/* export_tensorboard.c - write a TensorBoard event file.
 *
 * A file is a sequence of records: the length of the data, its checksum, the
 * data, its checksum. The data is an Event, a protocol buffer with few fields,
 * which is encoded by hand:
 *
 *   Event   1 wall_time double, 2 step int64, 3 file_version string,
 *           5 summary Summary
 *   Summary 1 value Value, repeated
 *   Value   1 tag string, 2 simple_value float
 *
 * src  tensorflow/core/util/event.proto, summary.proto and
 *      tensorflow/core/lib/io/record_writer.cc (the mask of the checksum)
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/tools/export/export.h"
#include "scheduler/tools/export/export_internal.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/views/show.h"

/* Bit by bit, because it is fast enough: a row costs some thousand steps, and a
 * file of a million rows a few seconds. */
uint32_t export_crc32c(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t masked(const void *data, size_t n)
{
    uint32_t crc = export_crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

struct board {
    FILE *out;
    struct buf event, summary, value;
    int64_t job;
    double wall_s; /* of the last iteration: epochs have no time */
};

/* ---- protocol buffers, little end first ---------------------------------- */

static int add_varint(struct buf *b, uint64_t v, struct error *err)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (unsigned char)(v | 0x80);
    bytes[n++] = (unsigned char)v;
    return buf_add(b, bytes, n, err);
}

static int add_bytes(struct buf *b, int tag, const void *p, size_t n,
                     struct error *err)
{
    if (add_varint(b, (uint64_t)tag << 3 | 2, err) < 0 ||
        add_varint(b, n, err) < 0)
        return -1;
    return buf_add(b, p, n, err);
}

static void little(uint64_t v, int n, unsigned char *ret)
{
    for (int i = 0; i < n; i++)
        ret[i] = (unsigned char)(v >> (8 * i));
}

static int begin_event(struct board *b, double wall_s, int64_t step,
                       struct error *err)
{
    unsigned char wall[9] = {1 << 3 | 1};
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof(bits));
    little(bits, 8, wall + 1);
    buf_reset(&b->event);
    buf_reset(&b->summary);
    if (buf_add(&b->event, wall, sizeof(wall), err) < 0 ||
        add_varint(&b->event, 2 << 3, err) < 0)
        return -1;
    return add_varint(&b->event, (uint64_t)step, err);
}

static int add_scalar(struct board *b, const char *tag, double v,
                      struct error *err)
{
    unsigned char number[5] = {2 << 3 | 5};
    float f = (float)v;
    uint32_t bits;
    if (isnan(v))
        return 0;
    memcpy(&bits, &f, sizeof(bits));
    little(bits, 4, number + 1);
    buf_reset(&b->value);
    if (add_bytes(&b->value, 1, tag, strlen(tag), err) < 0 ||
        buf_add(&b->value, number, sizeof(number), err) < 0)
        return -1;
    return add_bytes(&b->summary, 1, b->value.data, b->value.len, err);
}

static int put_record(struct board *b, struct error *err)
{
    unsigned char head[12], tail[4];
    little(b->event.len, 8, head);
    little(masked(head, 8), 4, head + 8);
    little(masked(b->event.data, b->event.len), 4, tail);
    if (fwrite(head, 1, 12, b->out) != 12 ||
        fwrite(b->event.data, 1, b->event.len, b->out) != b->event.len ||
        fwrite(tail, 1, 4, b->out) != 4)
        return error_set(err, ERR_IO, "write: %s", strerror(errno));
    return 0;
}

static int end_event(struct board *b, struct error *err)
{
    if (b->summary.len == 0)
        return 0;
    if (add_bytes(&b->event, 5, b->summary.data, b->summary.len, err) < 0)
        return -1;
    return put_record(b, err);
}

/* ---- rows ----------------------------------------------------------------
 */

/* Adds every column except those that identify the row. */
static int add_columns(struct board *b, const json_t *reply, const json_t *row,
                       const char *const *skip, bool is_epoch, double rank,
                       struct error *err)
{
    const json_t *columns = json_object_get(reply, "columns");
    size_t i;
    json_t *name;
    json_array_foreach(columns, i, name)
    {
        const char *s = json_string_value(name);
        char tag[100], of_rank[24] = "";
        bool is_key = false;
        for (size_t k = 0; skip[k]; k++)
            is_key = is_key || strcmp(s, skip[k]) == 0;
        if (is_key)
            continue;
        if (rank > 0)
            (void)snprintf(of_rank, sizeof(of_rank), "/rank_%.0f", rank);
        (void)snprintf(tag, sizeof(tag), "%s/%s%s",
                       is_epoch                   ? "epoch"
                       : strncmp(s, "t_", 2) == 0 ? "time"
                                                  : "train",
                       s, of_rank);
        if (add_scalar(b, tag, show_cell(row, (int)i), err) < 0)
            return -1;
    }
    return 0;
}

static int put_iteration(void *arg, const json_t *reply, const json_t *row,
                         struct error *err)
{
    static const char *const skip[] = {"attempt", "rank",       "iteration",
                                       "epoch",   "started_at", NULL};
    struct board *b = arg;
    double wall_s = show_cell(row, cells_column(reply, "started_at"));
    double rank = show_cell(row, cells_column(reply, "rank"));
    b->wall_s = isfinite(wall_s) ? wall_s : b->wall_s;
    if (begin_event(b, b->wall_s,
                    (int64_t)show_cell(row, cells_column(reply, "iteration")),
                    err) < 0 ||
        add_columns(b, reply, row, skip, false, rank, err) < 0)
        return -1;
    return end_event(b, err);
}

static int put_epoch(void *arg, const json_t *reply, const json_t *row,
                     struct error *err)
{
    static const char *const skip[] = {"attempt", "epoch", NULL};
    struct board *b = arg;
    if (begin_event(b, b->wall_s,
                    (int64_t)show_cell(row, cells_column(reply, "epoch")),
                    err) < 0 ||
        add_columns(b, reply, row, skip, true, 0, err) < 0)
        return -1;
    return end_event(b, err);
}

static int put_value(void *arg, const json_t *reply, const json_t *row,
                     struct error *err)
{
    struct board *b = arg;
    const char *name = json_string_value(
        json_array_get(row, (size_t)cells_column(reply, "name")));
    double at = show_cell(row, cells_column(reply, "iteration"));
    double rank = show_cell(row, cells_column(reply, "rank"));
    char tag[120];
    if (!name)
        return 0;
    (void)snprintf(tag, sizeof(tag),
                   rank > 0 ? "metric/%s/rank_%.0f" : "metric/%s", name, rank);
    if (begin_event(b, b->wall_s, isfinite(at) ? (int64_t)at : 0, err) < 0 ||
        add_scalar(b, tag, show_cell(row, cells_column(reply, "value")), err) <
            0)
        return -1;
    return end_event(b, err);
}

static int put_all(struct board *b, struct client *c, const char *word,
                   struct error *err)
{
    static const char version[] = "brain.Event:2";
    if (begin_event(b, 0, 0, err) < 0 ||
        add_bytes(&b->event, 3, version, strlen(version), err) < 0 ||
        put_record(b, err) < 0)
        return -1;
    if (export_each(c, word, "iterations", &b->job, NULL, put_iteration, b,
                    err) < 0 ||
        export_each(c, word, "epochs", &b->job, NULL, put_epoch, b, err) < 0)
        return -1;
    return export_each(c, word, "values", &b->job, NULL, put_value, b, err);
}

int export_tensorboard(struct client *c, const char *word, const char *dir,
                       struct error *err)
{
    struct board b = {.wall_s = 0};
    char path[1024], temp[1024];
    int n = snprintf(path, sizeof(path), "%s/events.out.tfevents.0.job-%s", dir,
                     word);
    int m = snprintf(temp, sizeof(temp), "%s/.job-%s.tmp", dir, word);
    if (n < 0 || m < 0 || (size_t)n >= sizeof(path) ||
        (size_t)m >= sizeof(temp))
        return error_set(err, ERR_USAGE, "'%.60s...' is too long", dir);
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return plot_file_error(err, errno, "make", dir);
    b.out = fopen(temp, "we");
    if (!b.out)
        return plot_file_error(err, errno, "create", temp);
    int rc = put_all(&b, c, word, err);
    if (fclose(b.out) != 0 && rc == 0)
        rc = plot_file_error(err, errno, "write", temp);
    if (rc == 0 && rename(temp, path) < 0)
        rc = plot_file_error(err, errno, "write", path);
    if (rc < 0)
        (void)unlink(temp);
    buf_clear(&b.event);
    buf_clear(&b.summary);
    buf_clear(&b.value);
    return rc;
}
