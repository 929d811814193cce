/* batch_conf.c - parse and encode batch.json; see batch_conf.h. Both directions
 * call check(), so mgpu-batch accepts what the helper writes. */
#include "slurm/protocol/batch_conf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const launchers[] = {
    [BATCH_SRUN] = "srun", [BATCH_MPIRUN] = "mpirun"};
enum { N_LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

static const char word_bytes[] = "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

static int range(const char *key, int64_t v, int64_t min, int64_t max,
                 struct error *err)
{
    if (v < min || v > max)
        return error_set(err, ERR_INVAL, "'%s' is %lld, must be %lld..%lld",
                         key, (long long)v, (long long)min, (long long)max);
    return 0;
}

static int check(const struct batch_conf *c, struct error *err)
{
    if ((unsigned)c->launcher >= N_LAUNCHERS)
        return error_set(err, ERR_INVAL,
                         "'launcher' is neither srun nor "
                         "mpirun");
    if (c->program[0] == '\0' || c->program[0] == '-' ||
        (strchr(c->program, '/') && c->program[0] != '/'))
        return error_set(err, ERR_INVAL,
                         "'program' must be an absolute path or a name");
    if (c->worker[0] != '/')
        return error_set(err, ERR_INVAL, "'worker' must be an absolute path");
    if (c->mpi[0] == '\0' || strspn(c->mpi, word_bytes) != strlen(c->mpi))
        return error_set(err, ERR_INVAL, "'mpi' must be one word");
    if (strspn(c->gpu_type, word_bytes) != strlen(c->gpu_type))
        return error_set(err, ERR_INVAL, "'gpu_type' must be one word");
    if (range("nodes", c->nodes, 1, BATCH_NODES_MAX, err) < 0 ||
        range("ranks_per_node", c->ranks_per_node, 1, BATCH_RANKS_MAX, err) <
            0 ||
        range("gpus_per_node", c->gpus_per_node, 0, BATCH_RANKS_MAX, err) < 0 ||
        range("cpus_per_rank", c->cpus_per_rank, 1, BATCH_RANKS_MAX, err) < 0 ||
        range("log_max_bytes", c->log_max_bytes, 1, INT64_MAX, err) < 0)
        return -1;
    if (c->gpus_per_node > 0 && c->ranks_per_node > 1 &&
        c->gpus_per_node != c->ranks_per_node)
        return error_set(err, ERR_INVAL,
                         "'ranks_per_node' is %d, 'gpus_per_node' %d: each "
                         "rank has one GPU, none has, or one has all",
                         c->ranks_per_node, c->gpus_per_node);
    return 0;
}

/* ---- parse ----------------------------------------------------------------
 */

static int get_text(const json_t *o, const char *key, char *ret, size_t cap,
                    struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v))
        return error_set(err, ERR_INVAL, "'%s' is not a string", key);
    size_t n = json_string_length(v);
    if (n >= cap || strlen(json_string_value(v)) != n)
        return error_set(err, ERR_INVAL, "'%s' must have 1..%zu bytes", key,
                         cap - 1);
    memcpy(ret, json_string_value(v), n + 1);
    return 0;
}

static int get_int(const json_t *o, const char *key, int64_t max, int64_t *ret,
                   struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        return error_set(err, ERR_INVAL, "'%s' is not an integer", key);
    if (range(key, json_integer_value(v), 0, max, err) < 0)
        return -1;
    *ret = json_integer_value(v);
    return 0;
}

static int get_i32(const json_t *o, const char *key, int32_t *ret,
                   struct error *err)
{
    int64_t v = 0;
    if (get_int(o, key, INT32_MAX, &v, err) < 0)
        return -1;
    *ret = (int32_t)v;
    return 0;
}

static int get_launcher(const json_t *o, enum batch_launcher *ret,
                        struct error *err)
{
    char word[16];
    if (get_text(o, "launcher", word, sizeof(word), err) < 0)
        return -1;
    for (size_t i = 0; i < N_LAUNCHERS; i++)
        if (strcmp(word, launchers[i]) == 0) {
            *ret = (enum batch_launcher)i;
            return 0;
        }
    return error_set(err, ERR_INVAL, "'launcher' is neither srun nor mpirun");
}

/* A boolean key; false if it is missing. */
static int get_flag(const json_t *o, const char *key, bool *ret,
                    size_t *io_keys, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_true(v))
        return error_set(err, ERR_INVAL, "'%s' must be true", key);
    *ret = v != NULL;
    *io_keys += v != NULL;
    return 0;
}

static int get_all(const json_t *o, struct batch_conf *c, struct error *err)
{
    enum { N_KEYS = 9 };
    bool has_type = json_object_get(o, "gpu_type") != NULL;
    size_t n_keys = has_type ? N_KEYS + 1 : N_KEYS;
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "not a JSON object");
    if (get_launcher(o, &c->launcher, err) < 0 ||
        get_text(o, "program", c->program, sizeof(c->program), err) < 0 ||
        get_text(o, "mpi", c->mpi, sizeof(c->mpi), err) < 0 ||
        get_text(o, "worker", c->worker, sizeof(c->worker), err) < 0 ||
        get_i32(o, "nodes", &c->nodes, err) < 0 ||
        get_i32(o, "ranks_per_node", &c->ranks_per_node, err) < 0 ||
        get_i32(o, "gpus_per_node", &c->gpus_per_node, err) < 0 ||
        get_i32(o, "cpus_per_rank", &c->cpus_per_rank, err) < 0 ||
        get_int(o, "log_max_bytes", INT64_MAX, &c->log_max_bytes, err) < 0 ||
        (has_type &&
         get_text(o, "gpu_type", c->gpu_type, sizeof(c->gpu_type), err) < 0) ||
        get_flag(o, "log_fails", &c->log_fails, &n_keys, err) < 0 ||
        get_flag(o, "log_is_plain", &c->log_is_plain, &n_keys, err) < 0 ||
        get_flag(o, "program_mpi", &c->program_mpi, &n_keys, err) < 0)
        return -1;
    /* All keys are present and none is duplicate. */
    if (json_object_size(o) != n_keys)
        return error_set(err, ERR_INVAL, "there is an unknown key");
    return check(c, err);
}

int batch_conf_parse(const char *text, size_t len, struct batch_conf *ret,
                     struct error *err)
{
    if (len > BATCH_CONF_MAX_BYTES)
        return error_set(err, ERR_INVAL, "batch.json: over %d bytes",
                         BATCH_CONF_MAX_BYTES);
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!o)
        return error_set(err, ERR_INVAL, "batch.json: line %d: %s", why.line,
                         why.text);
    struct batch_conf c = {.launcher = BATCH_SRUN};
    int rc = get_all(o, &c, err);
    json_decref(o);
    if (rc < 0)
        return error_wrap(err, "batch.json");
    *ret = c;
    return 0;
}

/* ---- encode ---------------------------------------------------------------
 */

int batch_conf_encode(const struct batch_conf *c, struct buf *out,
                      struct error *err)
{
    if (check(c, err) < 0)
        return error_wrap(err, "batch.json");
    json_t *o =
        json_pack("{s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:I,s:s*,s:o*,s:o*,s:o*}",
                  "launcher", launchers[c->launcher], "program", c->program,
                  "mpi", c->mpi, "worker", c->worker, "nodes", (int)c->nodes,
                  "ranks_per_node", (int)c->ranks_per_node, "gpus_per_node",
                  (int)c->gpus_per_node, "cpus_per_rank", (int)c->cpus_per_rank,
                  "log_max_bytes", (json_int_t)c->log_max_bytes, "gpu_type",
                  c->gpu_type[0] ? c->gpu_type : NULL, "log_fails",
                  c->log_fails ? json_true() : NULL, "log_is_plain",
                  c->log_is_plain ? json_true() : NULL, "program_mpi",
                  c->program_mpi ? json_true() : NULL);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text) /* out of memory, or a path that is not UTF-8 */
        return error_set(err, ERR_INVAL, "batch.json: a path is not UTF-8");
    int rc = buf_addf(out, err, "%s\n", text);
    free(text);
    return rc;
}
