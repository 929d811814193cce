/* held_replies.h - replies that wait until their change is durable. */
#ifndef MGPU_SCHEDULER_CTLD_API_HELD_REPLIES_H
#define MGPU_SCHEDULER_CTLD_API_HELD_REPLIES_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/http/http_server.h"

struct ctld;

int held_replies_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Replies to x when all changes staged so far are durable: with the job, or
 * with mgpu.ok/1 when job is 0. Requests a step. */
void held_replies_add(struct ctld *c, struct http_exchange *x, int status,
                      uint64_t job);
/* As held_replies_add(), and with what the request does. The job may have been
 * changed again before the reply goes.
 * in  says  JOB_REASON_CAP; "": nothing */
void held_replies_add_text(struct ctld *c, struct http_exchange *x, int status,
                           uint64_t job, const char *says);
bool held_replies_any(const struct ctld *c);
/* Sends the replies whose changes the engine has made durable or undone.
 * in  why  for those that it has undone */
void held_replies_settle(struct ctld *c, const struct error *why);
/* Fails the replies that are still held. */
void held_replies_clear(struct ctld *c);

#endif
