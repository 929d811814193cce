/* config_value.h - values of a config.json. A value that is null is absent.
 */
#ifndef MGPU_WORKER_LLM_CONFIG_CONFIG_VALUE_H
#define MGPU_WORKER_LLM_CONFIG_CONFIG_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

/* NULL: absent, or null. Borrowed from o. */
const json_t *config_value(const json_t *o, const char *key);

/* A value as the file has it, for a message. */
struct config_shown {
    char text[41];
};
struct config_shown config_show(const json_t *v);

/* An absent value is `absent`, or, where that is below 0, missing.
 * err  ERR_INVAL missing, of another type, out of range; the key is named */
int config_int(const json_t *o, const char *key, int32_t min, int32_t max,
               int32_t absent, int32_t *ret, struct error *err) MUST_CHECK;
int config_real(const json_t *o, const char *key, double min, double max,
                double absent, double *ret, struct error *err) MUST_CHECK;
int config_bool(const json_t *o, const char *key, bool absent, bool *ret,
                struct error *err) MUST_CHECK;

#endif
