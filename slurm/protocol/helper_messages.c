/* helper_messages.c - the tables, and the checks of each text; see
 * helper_messages.h. */
#include "slurm/protocol/helper_messages.h"

#include <jansson.h>
#include <string.h>

/* ---- checks of texts ----------------------------------------------------- */
static bool is_of(const char *text, const char *more)
{
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789._-";
    for (; *text; text++)
        if (!strchr(word, *text) && !strchr(more, *text))
            return false;
    return true;
}

static const char *format(bool is_right)
{
    return is_right ? NULL : "has an invalid format";
}

static const char *bad_tag(const char *text)
{
    return format(strncmp(text, "mgpu:", 5) == 0 && is_of(text, ":"));
}

/* A GPU type ends up inside "gres:gpu:TYPE:N". */
static const char *bad_word(const char *text)
{
    return format(is_of(text, ""));
}

static const char *bad_list(const char *text)
{
    return format(is_of(text, ","));
}

/* Features: "ib&(h100|h200)", "[rack1*2&rack2]", "~old". */
static const char *bad_constraint(const char *text)
{
    return format(is_of(text, ",&|()[]*:~=+@/"));
}

/* Absolute, without "." or "..". */
static const char *bad_dir(const char *text)
{
    if (text[0] != '/' || !json_struct_is_printable(text))
        return format(false);
    for (const char *p = text; *p;) {
        p++; /* past the '/' */
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') ||
            (n == 2 && p[0] == '.' && p[1] == '.'))
            return format(false);
        p += n;
    }
    return NULL;
}

static const char *bad_object(const char *text)
{
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool is = json_is_object(v);
    json_decref(v);
    return format(is);
}

/* ---- the tables ---------------------------------------------------------- */
enum {
    WORD_MAX = 255,
    EXCLUDE_MAX_BYTES = 1023,
    NAME_MAX_BYTES = 255,
    LAUNCH_MAX_BYTES = 1 << 20,
    GPUS_MAX = 1024,
    CPUS_MAX = 1 << 16,
    SIGNO_MAX = 64,
    CODE_MAX = 255,
};
#define SECONDS_MAX 1000000000 /* 31 years */
#define BYTES_MAX ((int64_t)1 << 60)
#define ENDED_MAX (INT64_MAX / 1000)

#define REQ(member) offsetof(struct helper_cmd, req.member)
#define ID                                                                    \
    {                                                                         \
        .key = "id", .kind = KIND_U64, .at = offsetof(struct helper_cmd, id), \
        .max = INT64_MAX                                                      \
    }
#define TAG                                                          \
    {                                                                \
        .key = "tag", .kind = KIND_STRING, .at = REQ(tag), .min = 1, \
        .max = HELPER_TAG_CAP - 1, .fault = bad_tag                  \
    }
#define UID                                                                   \
    {                                                                         \
        .key = "uid", .kind = KIND_U32, .at = REQ(uid), .max = UINT32_MAX - 1 \
    }
#define DIR                                                          \
    {                                                                \
        .key = "dir", .kind = KIND_STRING, .at = REQ(dir), .min = 2, \
        .max = HELPER_DIR_CAP - 1, .fault = bad_dir                  \
    }
#define WHERE(word, rule)                                                   \
    {                                                                       \
        .key = #word, .kind = KIND_STRING, .at = REQ(where.word), .min = 1, \
        .max = WORD_MAX, .fault = (rule), .flags = IS_NULLABLE              \
    }

static const struct json_field submit_fields[] = {
    ID,
    {"job", KIND_U64, 0, REQ(job), 1, INT64_MAX, NULL},
    {"attempt", KIND_I32, 0, REQ(attempt), 1, INT32_MAX, NULL},
    TAG,
    {"name", KIND_STRING, 0, REQ(name), 1, NAME_MAX_BYTES, NULL},
    UID,
    DIR,
    {"launch", KIND_STRING, 0, REQ(launch), 2, LAUNCH_MAX_BYTES, bad_object},
    {"nodes", KIND_I32, 0, REQ(nodes), 1, HELPER_NODES_MAX, NULL},
    {"gpus_per_node", KIND_I32, 0, REQ(gpus_per_node), 0, GPUS_MAX, NULL},
    {"limit_s", KIND_REAL, 0, REQ(limit_s), 0, SECONDS_MAX, NULL},
    {"grace_s", KIND_REAL, 0, REQ(grace_s), 0, SECONDS_MAX, NULL},
    WHERE(partition, bad_list),
    WHERE(account, bad_word),
    WHERE(qos, bad_word),
    WHERE(constraint, bad_constraint),
    WHERE(reservation, bad_list),
    WHERE(gpu_type, bad_word),
    {"exclude", KIND_STRING, IS_NULLABLE, REQ(where.exclude), 1,
     EXCLUDE_MAX_BYTES, bad_list},
    {"cpus_per_gpu", KIND_I32, 0, REQ(where.cpus_per_gpu), 0, CPUS_MAX, NULL},
    {"memory_bytes", KIND_I64, 0, REQ(where.memory_bytes), 0, BYTES_MAX, NULL},
    {"exclusive", KIND_BOOL, 0, REQ(where.exclusive), 0, 0, NULL},
};

#define SLURM_ID                                               \
    {                                                          \
        .key = "slurm_id", .kind = KIND_U32,                   \
        .at = offsetof(struct helper_cmd, slurm_id), .min = 1, \
        .max = UINT32_MAX - 2                                  \
    }
static const struct json_field signal_fields[] = {
    ID,
    TAG,
    UID,
    SLURM_ID,
    {"signo", KIND_I32, 0, offsetof(struct helper_cmd, signo), 1, SIGNO_MAX,
     NULL},
    {"is_cancel", KIND_BOOL, IS_OPTIONAL,
     offsetof(struct helper_cmd, is_cancel), 0, 0, NULL},
};

static const struct json_field kill_fields[] = {ID, TAG, UID, SLURM_ID};

static const struct json_field limit_fields[] = {
    ID,
    TAG,
    UID,
    SLURM_ID,
    {"limit_s", KIND_REAL, 0, REQ(limit_s), 0, SECONDS_MAX, NULL},
};

static const struct json_field read_exit_fields[] = {ID, UID, DIR};

static const struct json_field recall_fields[] = {
    ID,
    TAG,
    UID,
    {"name", KIND_STRING, 0, REQ(name), 1, NAME_MAX_BYTES, NULL},
    DIR,
    {"slurm_id", KIND_U32, 0, offsetof(struct helper_cmd, slurm_id), 0,
     UINT32_MAX - 2, NULL},
    {"since", KIND_I64, 0, REQ(since), 0, INT64_MAX, NULL},
};

static const struct json_field again_fields[] = {ID};

#define NEWS(member) offsetof(struct helper_news, member)
static const struct json_field hello_fields[] = {
    {"generation", KIND_U64, 0, NEWS(generation), 1, INT64_MAX, NULL},
    {"slurm", KIND_TEXT, 0, NEWS(slurm), 1,
     sizeof(((struct helper_news *)0)->slurm), NULL},
};
static const struct json_field done_fields[] = {
    {"id", KIND_U64, 0, NEWS(id), 0, INT64_MAX, NULL},
    {"slurm_id", KIND_U32, IS_OPTIONAL, NEWS(slurm_id), 0, UINT32_MAX, NULL},
    {"exit_code", KIND_I32, IS_OPTIONAL, NEWS(exit_code), 0, CODE_MAX, NULL},
    {"signal", KIND_I32, IS_OPTIONAL, NEWS(signal), 0, SIGNO_MAX, NULL},
    {"told", KIND_TEXT, IS_OPTIONAL, NEWS(told), 0, ATTEMPT_TOLD_CAP, NULL},
    {"is_ending", KIND_BOOL, IS_OPTIONAL, NEWS(is_ending), 0, 0, NULL},
    {"is_other", KIND_BOOL, IS_OPTIONAL, NEWS(is_other), 0, 0, NULL},
    {"ended_ms", KIND_I64, IS_OPTIONAL, NEWS(ended_ms), 0, INT64_MAX, NULL},
    {"state", KIND_TEXT, IS_OPTIONAL, NEWS(job.state), 0,
     sizeof(((struct helper_job *)0)->state), NULL},
    {"reason", KIND_TEXT, IS_OPTIONAL, NEWS(job.reason), 0,
     sizeof(((struct helper_job *)0)->reason), NULL},
    {"has_accounting", KIND_BOOL, IS_OPTIONAL, NEWS(has_accounting), 0, 0,
     NULL},
    {"booted", KIND_I64, IS_OPTIONAL, NEWS(booted), 0, INT64_MAX, NULL},
    {"limit_min", KIND_I32, IS_OPTIONAL, NEWS(job.limit_min), 0, INT32_MAX,
     NULL},
    {"ended", KIND_I64, IS_OPTIONAL, NEWS(job.ended), 0, ENDED_MAX, NULL},
};
#define WHY                                        \
    {                                              \
        "why", KIND_TEXT, 0, NEWS(why.msg), 0,     \
            sizeof(((struct error *)0)->msg), NULL \
    }
static const struct json_field failed_fields[] = {
    {"id", KIND_U64, 0, NEWS(id), 0, INT64_MAX, NULL},
    {"code", KIND_CODE, 0, NEWS(why.code), 0, 0, NULL},
    WHY,
    {"is_sure", KIND_BOOL, IS_OPTIONAL, NEWS(is_sure), 0, 0, NULL},
};
#define JOB(member) offsetof(struct helper_news, job.member)
#define JOB_TEXT(word, least, rule)                      \
    {                                                    \
#word, KIND_TEXT, 0, JOB(word), least,           \
            sizeof(((struct helper_job *)0)->word), rule \
    }
static const struct json_field job_fields[] = {
    JOB_TEXT(tag, 1, bad_tag),
    {"uid", KIND_U32, 0, JOB(uid), 0, UINT32_MAX, NULL},
    {"slurm_id", KIND_U32, 0, JOB(slurm_id), 1, UINT32_MAX, NULL},
    JOB_TEXT(state, 1, NULL),
    JOB_TEXT(reason, 0, NULL),
    JOB_TEXT(place, 0, NULL),
    {"exit_code", KIND_I32, 0, JOB(exit_code), 0, CODE_MAX, NULL},
    {"signal", KIND_I32, 0, JOB(signal), 0, SIGNO_MAX, NULL},
    {"restarts", KIND_I32, 0, JOB(restarts), 0, INT32_MAX, NULL},
    {"limit_min", KIND_I32, IS_OPTIONAL, JOB(limit_min), 0, INT32_MAX, NULL},
    {"nice", KIND_I32, IS_OPTIONAL, JOB(nice), -INT32_MAX, INT32_MAX, NULL},
    {"submitted", KIND_I64, 0, JOB(submitted), 0, INT64_MAX, NULL},
    {"ended", KIND_I64, IS_OPTIONAL, JOB(ended), 0, ENDED_MAX, NULL},
    {"expected", KIND_I64, IS_OPTIONAL, JOB(expected), 0, ENDED_MAX, NULL},
};
static const struct json_field gone_fields[] = {
    JOB_TEXT(tag, 1, bad_tag),
    {"slurm_id", KIND_U32, 0, JOB(slurm_id), 1, UINT32_MAX, NULL},
};
static const struct json_field scan_fields[] = {
    {"seq", KIND_U64, 0, NEWS(seq), 0, INT64_MAX, NULL},
};
#define PART(member) offsetof(struct helper_news, partition.member)
#define PART_TEXT(word, least)                                \
    {                                                         \
#word, KIND_TEXT, 0, PART(word), least,               \
            sizeof(((struct alloc_partition *)0)->word), NULL \
    }
static const struct json_field partition_fields[] = {
    {"index", KIND_I32, 0, NEWS(index), 0, HELPER_NODES_MAX, NULL},
    {"count", KIND_I32, 0, NEWS(count), 1, HELPER_NODES_MAX, NULL},
    PART_TEXT(name, 1),
    {"is_default", KIND_BOOL, 0, PART(is_default), 0, 0, NULL},
    {"max_minutes", KIND_I32, 0, PART(max_minutes), 0, INT32_MAX, NULL},
    {"max_nodes", KIND_I32, 0, PART(max_nodes), 0, INT32_MAX, NULL},
    {"default_minutes", KIND_I32, 0, PART(default_minutes), 0, INT32_MAX, NULL},
    PART_TEXT(allow_accounts, 0),
    PART_TEXT(deny_accounts, 0),
    PART_TEXT(allow_qos, 0),
    PART_TEXT(deny_qos, 0),
};
#define QUOTA(member) offsetof(struct helper_news, quota.member)
#define QUOTA_TEXT(word)                                  \
    {                                                     \
#word, KIND_TEXT, 0, QUOTA(word), 0,              \
            sizeof(((struct alloc_quota *)0)->word), NULL \
    }
#define QUOTA_I32(word)                                      \
    {                                                        \
#word, KIND_I32, 0, QUOTA(word), -1, INT32_MAX, NULL \
    }
#define QUOTA_I64(word)                                      \
    {                                                        \
#word, KIND_I64, 0, QUOTA(word), -1, INT64_MAX, NULL \
    }
static const struct json_field quota_fields[] = {
    {"index", KIND_I32, 0, NEWS(index), 0, HELPER_NODES_MAX, NULL},
    {"count", KIND_I32, 0, NEWS(count), 0, HELPER_NODES_MAX, NULL},
    {"kind", KIND_I32, 0, QUOTA(kind), 0, ALLOC_QUOTA_RESERVATION, NULL},
    {"uid", KIND_U32, 0, QUOTA(uid), 0, UINT32_MAX, NULL},
    QUOTA_TEXT(name),
    QUOTA_TEXT(partition),
    QUOTA_TEXT(qos),
    {"is_default", KIND_BOOL, 0, QUOTA(is_default), 0, 0, NULL},
    QUOTA_TEXT(group),
    {"group_is_user", KIND_BOOL, 0, QUOTA(group_is_user), 0, 0, NULL},
    QUOTA_I32(group_gpus),
    QUOTA_I32(group_used),
    QUOTA_I32(job_gpus),
    QUOTA_I32(user_gpus),
    QUOTA_I32(account_gpus),
    QUOTA_I64(minutes_left),
    QUOTA_I64(job_minutes),
    QUOTA_I64(starts),
    QUOTA_I64(ends),
};
static const struct json_field down_fields[] = {
    WHY,
    {"since", KIND_I64, 0, NEWS(since), 0, INT64_MAX, NULL},
};
#define NODE_TEXT(word, least)                                         \
    {                                                                  \
#word, KIND_TEXT, 0, offsetof(struct alloc_node, word), least, \
            sizeof(((struct alloc_node *)0)->word), NULL               \
    }
#define NODE_INT(word, most)                                                 \
    {                                                                        \
#word, KIND_I32, 0, offsetof(struct alloc_node, word), 0, most, NULL \
    }
/* Keys that were added later may be missing. */
#define NODE_LATER(word, most)                                              \
    {                                                                       \
#word, KIND_I32, IS_OPTIONAL, offsetof(struct alloc_node, word), 0, \
            most, NULL                                                      \
    }
static const struct json_field node_fields[] = {
    NODE_TEXT(name, 1),
    NODE_TEXT(gpu_type, 0),
    NODE_INT(gpus_total, GPUS_MAX),
    NODE_INT(gpus_free, GPUS_MAX),
    NODE_LATER(shared_total, INT32_MAX),
    NODE_LATER(shared_free, INT32_MAX),
    NODE_INT(is_up, 1),
    NODE_INT(is_drained, 1),
    NODE_LATER(is_busy, 1),
    NODE_LATER(is_wanted, 1),
    NODE_TEXT(why, 0),
    NODE_TEXT(used, 0),
    NODE_TEXT(partitions, 0),
    NODE_TEXT(features, 0),
    NODE_TEXT(reservation, 0),
    {"next_reservation", KIND_TEXT, IS_OPTIONAL,
     offsetof(struct alloc_node, next_reservation), 0,
     sizeof(((struct alloc_node *)0)->next_reservation), NULL},
    {"next_starts", KIND_I64, IS_OPTIONAL,
     offsetof(struct alloc_node, next_starts), 0, INT64_MAX, NULL},
    NODE_TEXT(address, 0),
};

const struct json_struct helper_commands[HELPER_N_OPS] = {
    [HELPER_SUBMIT] = {"submit", JSON_FIELDS(submit_fields)},
    [HELPER_SIGNAL] = {"signal", JSON_FIELDS(signal_fields)},
    [HELPER_KILL] = {"kill", JSON_FIELDS(kill_fields)},
    [HELPER_LIMIT] = {"limit", JSON_FIELDS(limit_fields)},
    [HELPER_READ_EXIT] = {"read_exit", JSON_FIELDS(read_exit_fields)},
    [HELPER_RECALL] = {"recall", JSON_FIELDS(recall_fields)},
    [HELPER_AGAIN] = {"again", JSON_FIELDS(again_fields)},
};
const struct json_struct helper_events[HELPER_N_EVS] = {
    [HELPER_HELLO] = {"hello", JSON_FIELDS(hello_fields)},
    [HELPER_REPLY] = {"reply", JSON_FIELDS(done_fields)},
    [HELPER_JOB] = {"job", JSON_FIELDS(job_fields)},
    [HELPER_GONE] = {"gone", JSON_FIELDS(gone_fields)},
    [HELPER_SCAN] = {"scan", JSON_FIELDS(scan_fields)},
    [HELPER_NODES] = {"nodes", NULL, 0}, /* encoded by hand: an array */
    [HELPER_PARTITION] = {"partition", JSON_FIELDS(partition_fields)},
    [HELPER_QUOTA] = {"quota", JSON_FIELDS(quota_fields)},
    [HELPER_DOWN] = {"down", JSON_FIELDS(down_fields)},
    [HELPER_UP] = {"up", NULL, 0},
};
const struct json_struct helper_failed = {"reply", JSON_FIELDS(failed_fields)};
const struct json_struct helper_node = {"node", JSON_FIELDS(node_fields)};
