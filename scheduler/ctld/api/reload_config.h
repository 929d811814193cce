/* reload_config.h - read mgpu.yaml again. */
#ifndef MGPU_SCHEDULER_CTLD_API_RELOAD_CONFIG_H
#define MGPU_SCHEDULER_CTLD_API_RELOAD_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/error.h"

struct conf;
struct ctld;

int reload_config_init(struct ctld *c, struct error *err) MUST_CHECK;
void reload_config_clear(struct ctld *c);
/* After SIGHUP. No user sent it, so admin.log names the daemon's own user; it
 * has no new line if the result is the same as last time.
 * err  ERR_CONFIG nothing is changed */
int reload_config_by_signal(struct ctld *c, struct error *err) MUST_CHECK;
/* Whether the last reload was refused. */
bool reload_config_has_failed(const struct ctld *c);
/* "reload" of mgpu.status/1; null: there was none */
json_t *reload_config_json(const struct ctld *c);
/* The value of a key as a file would have it; JSON null: c is NULL, or has no
 * value. */
json_t *reload_config_value(const struct conf *c, const char *key);

#endif
