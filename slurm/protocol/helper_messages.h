/* helper_messages.h - the messages between daemon and helper as tables. */
#ifndef MGPU_SLURM_PROTOCOL_HELPER_MESSAGES_H
#define MGPU_SLURM_PROTOCOL_HELPER_MESSAGES_H

#include "jobs/wire/json_struct.h"
#include "slurm/protocol/helper_wire.h"

/* By enum helper_op, by enum helper_ev; a reply with an error; one node of
 * HELPER_NODES, whose own row is empty. */
enum { HELPER_N_OPS = HELPER_AGAIN + 1, HELPER_N_EVS = HELPER_UP + 1 };
extern const struct json_struct helper_commands[HELPER_N_OPS];
extern const struct json_struct helper_events[HELPER_N_EVS];
extern const struct json_struct helper_failed, helper_node;
enum { HELPER_NODES_MAX = 1 << 16 };

#endif
