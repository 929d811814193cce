/* client.h - what the tools share of speaking to the daemon. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_CLIENT_H
#define MGPU_SCHEDULER_TOOLS_COMMON_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "scheduler/tools/common/options.h"

struct client;

/* url NULL: $MGPU_URL or the default (wire.h). timeout_s bounds how long the
 * daemon is looked for. */
int client_create(const char *url, double timeout_s, struct client **ret,
                  struct error *err) MUST_CHECK;
void client_destroy(struct client *c); /* NULL is fine */
/* From now on an answer may take so long. */
int client_patience(struct client *c, double request_s,
                    struct error *err) MUST_CHECK;

/* The reply's JSON object; a reply of >= 400 becomes err. key may be NULL.
 * own  the caller ends *ret with json_decref() */
int client_get(struct client *c, json_t **ret, struct error *err,
               const char *path_fmt, ...)
    __attribute__((format(printf, 4, 5))) MUST_CHECK;
/* The reply's text, and what client_get() makes of it: for a long list whose
 * rows are looked at one by one.
 * own  buf_clear(ret) */
int client_get_text(struct client *c, const char *path, struct buf *ret,
                    struct error *err) MUST_CHECK;
int client_parse(const char *path, const struct buf *text, json_t **ret,
                 struct error *err) MUST_CHECK;
int client_post(struct client *c, const char *path, const json_t *body,
                const char *key, json_t **ret, struct error *err) MUST_CHECK;
/* See http_client_in_doubt(): after a client_post() that failed, whether the
 * daemon may have carried it out. */
bool client_in_doubt(const struct client *c);
/* Lines of a stream; see http_client_stream(). A reply of >= 400 is an err,
 * and so is ERR_TIMEOUT after timeout_s (0: none). */
int client_stream(struct client *c, const char *path, double timeout_s,
                  int (*line)(void *arg, const char *text, size_t len,
                              struct error *err),
                  void *arg, struct error *err) MUST_CHECK;

/* ---- fields of a reply; absent and null have the given default ----------- */
double field_real(const json_t *o, const char *key); /* NAN */
int64_t field_int(const json_t *o, const char *key, int64_t absent);
const char *field_str(const json_t *o, const char *key); /* "" */
/* Of a node: how many GPUs of a type, and in ret_from the first one's index.
 * Who says that there are billions is not believed. */
int64_t field_gpus(const json_t *node, int64_t *ret_from);
/* RFC 3339 in UTC as the daemon writes it, as seconds since 1970; NAN. */
double field_time(const json_t *o, const char *key);
/* Of an attempt. The daemon keeps the state in which the job left it: one that
 * has ended and from which the job went on is REQUEUED, and not RUNNING. */
const char *attempt_state(const json_t *attempt);
/* Whether it has devices, or is about to get some. */
bool job_is_live(const json_t *job);
bool field_yes(const json_t *o, const char *key);
/* "key=value, ..." of an object but for the key `without` (NULL: of all);
 * values as JSON but for strings. NULL: no memory.
 * own  the caller frees it */
char *field_pairs(const json_t *o, const char *without);

/* To standard output, one line. o NULL: what made it had no memory. */
int client_print(const json_t *o, struct error *err) MUST_CHECK;

/* What every tool's main() is: parses the command line, runs, closes standard
 * output, says what failed ("tool: message", or JSON when *json was set by
 * then). Returns the exit status: the error's, else what run() gave. */
struct tool_main {
    const struct tool *tool;
    int (*on_option)(void *arg, const struct opt *o, const char *value,
                     struct error *err);
    int (*run)(void *arg, int n, char **operands, int *ret_exit,
               struct error *err);
    /* After the error of run() was printed: advice, on standard error. May be
     * NULL. */
    void (*advise)(void *arg);
    void *arg;
    const bool *json;
};
int tool_run(const struct tool_main *m, int argc, char **argv);

#endif
