/* reload.h - mgpu.yaml read once more by a daemon that runs, or with other keys
 * set on top of it.
 *
 * All of it or nothing: a file with an error changes nothing. What keys take
 * effect at once is in the table of conf.c (live); of the others it is told
 * that they wait for a restart.
 */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_RELOAD_H
#define MGPU_SCHEDULER_CTLD_STARTUP_RELOAD_H

#include "scheduler/ctld/startup/setup.h"

struct reload;

/* All borrowed, all outlive it. Without a->config a reload fails, and says
 * so. err ERR_NOMEM, or the path cannot be made absolute */
int reload_create(const struct args *a, const struct conf *conf,
                  const struct setup *s, struct reload **ret,
                  struct error *err) MUST_CHECK;
/* Frees also what the last answers borrow from. NULL is fine. */
void reload_destroy(struct reload *r);

/* ctld_parts.reload and .reloaded */
int reload_run(void *arg, bool reads_file, const struct spec_set *sets,
               size_t n, struct ctld_fresh *ret, struct error *err) MUST_CHECK;
void reload_keep(void *arg);

#endif
