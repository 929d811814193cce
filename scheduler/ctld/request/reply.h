/* reply.h - send replies, and read the parameters of requests. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_REPLY_H
#define MGPU_SCHEDULER_CTLD_REQUEST_REPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctld;
struct http_exchange;

/* Sends o, and frees it; NULL: replies that memory is short. */
void ctld_reply(struct http_exchange *x, int status, json_t *o);
/* The body as a JSON object, {} when empty; NULL: it has replied with why. */
json_t *ctld_body(struct http_exchange *x);
/* ?name=N within min..max, or absent; false: it has replied with why. */
bool ctld_query_int(struct http_exchange *x, const char *name, int64_t min,
                    int64_t max, int64_t absent, int64_t *ret);
/* ?since=, a moment in seconds since 1970; untouched without it. False: it has
 * replied with why. */
bool ctld_query_since(struct http_exchange *x, double *ret);
/* ":id" as a number; false: it has replied with why. */
bool ctld_param_id(struct http_exchange *x, size_t i, uint64_t *ret);
/* ":id" as "123", or as "123_4": task 4 of sweep 123. The bare number of a
 * sweep means the sweep, and its first task where only one job is possible.
 * False: it has replied with why. */
struct target {
    uint64_t id;   /* of the job, or of the first task of the sweep */
    bool is_sweep; /* all of it is meant */
};
bool ctld_param_target(struct ctld *c, struct http_exchange *x,
                       struct target *ret);
/* The same for one job; a sweep is refused. */
bool ctld_param_one(struct ctld *c, struct http_exchange *x, uint64_t *ret);

json_t *ctld_num(double v);       /* null for NAN and infinity */
json_t *ctld_text(const char *s); /* null for NULL and "" */
json_t *ctld_time(double wall_s); /* null for NAN */

#endif
