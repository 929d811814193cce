/* config_apply.h - put a configuration in force. */
#ifndef MGPU_SCHEDULER_CTLD_API_CONFIG_APPLY_H
#define MGPU_SCHEDULER_CTLD_API_CONFIG_APPLY_H

struct ctld;
struct ctld_fresh;

/* Puts in force what parts.reload() has returned. */
void config_apply_fresh(struct ctld *c, const struct ctld_fresh *f);
/* Sets c->engine_conf from c->conf and the drained nodes. */
void config_apply_engine(struct ctld *c);

#endif
