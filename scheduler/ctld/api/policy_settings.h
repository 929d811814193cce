/* policy_settings.h - keys of the policy that administrators set, on top of
 * mgpu.yaml. */
#ifndef MGPU_SCHEDULER_CTLD_API_POLICY_SETTINGS_H
#define MGPU_SCHEDULER_CTLD_API_POLICY_SETTINGS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

struct ctld;

enum { POLICY_SETTINGS_MAX = 32 };

int policy_settings_init(struct ctld *c, struct error *err) MUST_CHECK;
void policy_settings_clear(struct ctld *c);
/* Does what a line "policy" of admin.log says. */
void policy_settings_repeat(struct ctld *c, const char *at, int64_t uid,
                            const json_t *detail);
/* Puts the keys of admin.log in force, after all its lines were read. */
int policy_settings_start(struct ctld *c, struct error *err) MUST_CHECK;
/* The keys for parts.reload(), valid until the next change. Returns how many.
 */
size_t policy_settings_of_conf(const struct ctld *c,
                               struct spec_set ret[POLICY_SETTINGS_MAX]);
/* The number of keys. */
size_t policy_settings_count(const struct ctld *c);

#endif
