/* helper_messages.h - tables of the messages between daemon and helper.
 *
 * A row has a key, its type, its range and its place in the struct; parser and
 * encoder (helper_wire.c) both read it, so they cannot diverge. */
#ifndef MGPU_SLURM_PROTOCOL_HELPER_MESSAGES_H
#define MGPU_SLURM_PROTOCOL_HELPER_MESSAGES_H

#include "slurm/protocol/helper_wire.h"

enum kind {
    KIND_TEXT,   /* char[max]; at least min bytes */
    KIND_STRING, /* const char *; min..max bytes */
    KIND_I32,
    KIND_U32,
    KIND_I64,
    KIND_U64, /* at most INT64_MAX: jansson's limit */
    KIND_REAL,
    KIND_BOOL,
    KIND_CODE, /* enum err_code, by its name */
};

enum { IS_NULLABLE = 1, IS_OPTIONAL = 2 };

struct field {
    const char *key;
    enum kind kind;
    int flags;
    size_t at;
    int64_t min, max;
    bool (*fits)(const char *text); /* NULL: any printable text */
};

struct message {
    const char *word;
    const struct field *fields;
    size_t n;
};
/* By enum helper_op, by enum helper_ev; a reply with an error; one node of
 * HELPER_NODES, whose own row is empty. */
enum { HELPER_N_OPS = HELPER_AGAIN + 1, HELPER_N_EVS = HELPER_UP + 1 };
extern const struct message helper_commands[HELPER_N_OPS];
extern const struct message helper_events[HELPER_N_EVS];
extern const struct message helper_failed, helper_node;
enum { HELPER_NODES_MAX = 1 << 16 };

/* Whether the text may be sent, in either direction. err ERR_INVAL */
bool helper_is_printable(const char *text);
int helper_check_text(const struct field *f, const char *text, size_t n,
                      struct error *err) MUST_CHECK;
int helper_check_int(const struct field *f, int64_t v,
                     struct error *err) MUST_CHECK;
int helper_check_real(const struct field *f, double v,
                      struct error *err) MUST_CHECK;

#endif
