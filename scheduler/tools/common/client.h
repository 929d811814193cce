/* client.h - requests to the daemon, and what the main() of every tool does. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_CLIENT_H
#define MGPU_SCHEDULER_TOOLS_COMMON_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/wire/field.h"
#include "scheduler/tools/common/options.h"

struct client;

/* url NULL: $MGPU_URL or the default (wire.h). timeout_s limits the time to
 * connect. */
int client_create(const char *url, double timeout_s, struct client **ret,
                  struct error *err) MUST_CHECK;
void client_destroy(struct client *c); /* NULL is fine */
/* Sets the time-out of the following requests. */
int client_patience(struct client *c, double request_s,
                    struct error *err) MUST_CHECK;

/* Appends to out the value of the header Authorization for a request over TCP,
 * where the daemon cannot see the uid of the client: a credential of MUNGE for
 * this request alone. Blocks for about a millisecond.
 * in   arg  not used
 * err  those of cred_make() */
struct http_request;
int client_authorize(void *arg, const struct http_request *req, struct buf *out,
                     struct error *err) MUST_CHECK;

/* The JSON object of the reply; a reply of >= 400 becomes err. key may be NULL.
 * own  the caller ends *ret with json_decref() */
int client_get(struct client *c, json_t **ret, struct error *err,
               const char *path_fmt, ...)
    __attribute__((format(printf, 4, 5))) MUST_CHECK;
/* The reply as text, with the errors of client_get(): for a long list whose
 * rows are read one by one.
 * own  buf_clear(ret) */
int client_get_text(struct client *c, const char *path, struct buf *ret,
                    struct error *err) MUST_CHECK;
int client_post(struct client *c, const char *path, const json_t *body,
                const char *key, json_t **ret, struct error *err) MUST_CHECK;
/* After a client_post() that failed: whether the daemon may have carried it
 * out; see http_client_in_doubt(). */
bool client_in_doubt(const struct client *c);
/* Reads the lines of a stream; see http_client_stream(). A reply of >= 400
 * becomes err; ERR_TIMEOUT after timeout_s (0: none). */
int client_stream(struct client *c, const char *path, double timeout_s,
                  int (*line)(void *arg, const char *text, size_t len,
                              struct error *err),
                  void *arg, struct error *err) MUST_CHECK;

/* ---- jobs of a reply ----------------------------------------------------- */
/* The state of an attempt. The daemon stores the state in which the job left
 * it: an attempt that ended and was followed by another is shown as REQUEUED,
 * not as RUNNING. */
const char *attempt_state(const json_t *attempt);
/* Whether it has devices, or has been assigned some. */
bool job_is_live(const json_t *job);

/* Prints o on standard output, in one line. o NULL: building it ran out of
 * memory. */
int client_print(const json_t *o, struct error *err) MUST_CHECK;

/* The main() of every tool: parses the command line, runs, closes standard
 * output, prints the error ("tool: message", or JSON if *json was set by then).
 * Returns the exit status: the error's, else that of run(). */
struct tool_main {
    const struct tool *tool;
    int (*on_option)(void *arg, const struct opt *o, const char *value,
                     struct error *err);
    int (*run)(void *arg, int n, char **operands, int *ret_exit,
               struct error *err);
    /* Prints advice on standard error after the error of run(). May be NULL. */
    void (*advise)(void *arg);
    void *arg;
    const bool *json;
};
int tool_run(const struct tool_main *m, int argc, char **argv);

#endif
