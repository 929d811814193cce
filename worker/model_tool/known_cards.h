/* known_cards.h - what GPUs that are not here have free. */
#ifndef MGPU_WORKER_MODEL_TOOL_KNOWN_CARDS_H
#define MGPU_WORKER_MODEL_TOOL_KNOWN_CARDS_H

#include <stdint.h>

#include "jobs/base/error.h"

/* in   text  a card ("80G", "H200"), of any case, or what is free ("40G")
 * err  ERR_USAGE it is neither; all cards are listed */
int known_card_find(const char *text, int64_t *ret_free,
                    struct error *err) MUST_CHECK;

#endif
