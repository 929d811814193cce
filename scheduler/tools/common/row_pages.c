/* row_pages.c - page through the rows of a view; see row_pages.h.
 *
 * The daemon returns at most 100,000 rows per reply. Rows are ordered by
 * iteration, then rank, so a full page may end within an iteration: its last
 * iteration is left to the next page.
 */
#include "scheduler/tools/common/row_pages.h"

#include <inttypes.h>
#include <string.h>

enum { PAGE = 100000 };

static const char *key_of(const char *view)
{
    return strcmp(view, "epochs") == 0 || strcmp(view, "profile") == 0
               ? "epoch"
               : "iteration";
}

/* The key of a row; values without an iteration have -1. */
static int64_t key_at(const json_t *reply, const char *key, size_t row)
{
    const json_t *rows = json_object_get(reply, "rows"), *name;
    size_t i;
    json_array_foreach(json_object_get(reply, "columns"), i, name)
    {
        const char *s = json_string_value(name);
        if (s && strcmp(s, key) == 0) {
            const json_t *v = json_array_get(json_array_get(rows, row), i);
            return json_is_integer(v) ? json_integer_value(v) : -1;
        }
    }
    return -1;
}

/* How many rows of a page are complete iterations, and where the next page
 * begins. */
static size_t whole_rows(const json_t *reply, const char *key,
                         int64_t *io_after)
{
    size_t n = json_array_size(json_object_get(reply, "rows"));
    if (n < PAGE)
        return n;
    int64_t last = key_at(reply, key, n - 1);
    size_t whole = n;
    while (whole > 0 && key_at(reply, key, whole - 1) == last)
        whole--;
    /* An iteration with more ranks than a page has rows does not exist. */
    *io_after = whole > 0 ? last - 1 : last;
    return whole > 0 ? whole : n;
}

static int attempt_pages(struct client *c, const char *word, const char *view,
                         int64_t attempt, row_page_f page, void *arg,
                         struct error *err)
{
    int64_t after = -2; /* below all keys */
    for (;;) {
        json_t *reply = NULL;
        if (client_get(c, &reply, err,
                       "/v1/jobs/%s/%s?attempt=%" PRId64 "&after=%" PRId64,
                       word, view, attempt, after) < 0)
            return -1;
        bool is_last = json_array_size(json_object_get(reply, "rows")) < PAGE;
        size_t n = whole_rows(reply, key_of(view), &after);
        int rc = page(arg, reply, n, err);
        json_decref(reply);
        if (rc < 0 || is_last)
            return rc;
    }
}

int row_pages(struct client *c, const char *word, const char *view,
              int64_t *ret_job, row_page_f page, void *arg, struct error *err)
{
    json_t *job = NULL;
    if (client_get(c, &job, err, "/v1/jobs/%s", word) < 0)
        return -1;
    const json_t *o = json_object_get(job, "job");
    int64_t attempts = field_int(o, "attempt", 0);
    *ret_job = field_int(o, "id", 0);
    json_decref(job);
    int rc = 0;
    for (int64_t k = 1; rc == 0 && (k == 1 || k <= attempts); k++)
        rc = attempt_pages(c, word, view, k, page, arg, err);
    return rc;
}
