/* event_codec.c - encode and decode the details of all events but SUBMIT.
 *
 * A table has one row per member; see event_codec.h, json_struct.h.
 */
#include "scheduler/engine/events/event_codec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "jobs/wire/json_struct.h"
#include "scheduler/engine/events/json_nomem.h"

const char eng_taken_back[] = "TakenBack: ";

void detail_because(struct detail *d, const char *what, const char *why)
{
    text_copy(d->why, sizeof(d->why), what);
    size_t len = strlen(d->why);
    text_fit(d->why + len, sizeof(d->why) - len, why);
}

/* ---- the small details -----------------------------------------------------
 */
/* A number below min is not written. */
#define FIELD(kind, name, min, max, flags)                                    \
    {                                                                         \
#name, kind, IS_SPARSE | (flags), offsetof(struct detail, name), min, \
            max, NULL                                                         \
    }
#define TEXT(name) \
    FIELD(KIND_CLEAN, name, 0, sizeof(((struct detail *)NULL)->name), 0)
#define INT32(name, min) FIELD(KIND_I32, name, min, INT32_MAX, 0)
#define INT64(name, min) FIELD(KIND_I64, name, min, INT64_MAX, 0)
#define REAL(name) FIELD(KIND_REAL, name, 0, 0, IS_TRUSTED)
#define NUMBER(name) INT32(name, 0)

static const struct json_field fields[] = {
    TEXT(native_id),
    TEXT(place),
    TEXT(holder),
    NUMBER(nodes),
    NUMBER(gpus),
    TEXT(gpu_type),
    NUMBER(exit_code),
    NUMBER(signal),
    NUMBER(retry),
    NUMBER(stopped),
    NUMBER(wait_ms),
    INT64(left_ms, 1),
    TEXT(why),
    TEXT(held),
    INT32(priority, INT32_MIN + 1),
    INT64(limit_ms, 0),
    INT32(limit_default, 1),
    NUMBER(max_parallel),
    TEXT(partition),
    TEXT(account),
    TEXT(exclude),
    TEXT(fault_node),
    TEXT(cause),
    INT64(needed_bytes, 1),
    INT64(available_bytes, 0),
    INT64(for_job, 1),
    NUMBER(grace_ms),
    NUMBER(to_gpus),
    NUMBER(to_nodes),
    INT32(barred_gpus, 1),
    NUMBER(saves_failed),
    INT64(cpu_ms, 0),
    INT64(cores_ms, 1),
    INT64(gpu_busy_ms, 0),
    INT64(gpus_ms, 1),
    INT64(ended_ms, 1),
    INT64(iteration, 1),
    INT64(iterations_total, 1),
    INT32(epoch, 1),
    INT32(epochs_total, 1),
    REAL(loss),
    REAL(t_iter),
    REAL(eval_loss),
    REAL(eval_accuracy),
};
static const struct json_struct details = {"event", JSON_FIELDS(fields)};

int detail_encode(const struct detail *d, char **ret_text, struct error *err)
{
    nomem_forget();
    json_t *o = json_object();
    char *text = NULL;
    if (o && json_struct_write(&details, d, o, NULL) < 0) {
        json_decref(o);
        o = NULL;
    }
    bool is_empty = o && json_object_size(o) == 0;
    if (o && !is_empty)
        text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (nomem_was_there() || (!text && !is_empty)) {
        free(text);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    *ret_text = text;
    return 0;
}

int detail_decode(const char *text, struct detail *ret, struct error *err)
{
    static const struct detail nothing = DETAIL_INIT;
    struct members m;

    if (!text) {
        *ret = nothing;
        return 0;
    }
    nomem_forget();
    bool is_read = json_members_read(text, &m) == 0;
    if (is_read && nomem_was_there())
        json_members_clear(&m);
    if (!is_read || nomem_was_there())
        return nomem_refuse("an event's detail is no object", err);
    *ret = nothing;
    int rc = json_struct_take(&details, &m, true, ret);
    json_members_clear(&m);
    return rc; /* no row has to be there */
}
