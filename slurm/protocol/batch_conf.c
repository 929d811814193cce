/* batch_conf.c - parse and encode batch.json; see batch_conf.h. Both directions
 * call check(), so mgpu-batch accepts what the helper writes. */
#include "slurm/protocol/batch_conf.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "jobs/wire/json_struct.h"

static const char *const launchers[] = {
    [BATCH_SRUN] = "srun", [BATCH_MPIRUN] = "mpirun"};
enum { N_LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

static const char word_bytes[] = "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

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
    if (c->cpus_per_gpu < 1 || c->cpus_per_gpu > BATCH_CPUS_MAX)
        return error_set(err, ERR_INVAL, "'cpus_per_gpu' is %d, must be 1..%d",
                         c->cpus_per_gpu, BATCH_CPUS_MAX);
    return 0;
}

/* ---- the file ------------------------------------------------------------ */
struct file {
    const char *launcher;
    struct batch_conf conf;
};

static const char *bad_launcher(const char *text)
{
    for (size_t i = 0; i < N_LAUNCHERS; i++)
        if (strcmp(text, launchers[i]) == 0)
            return NULL;
    return "is neither srun nor mpirun";
}

/* check() judges values, the rows only whether they fit. */
#define AT(member) offsetof(struct file, conf.member)
#define TEXT(member, flags)                                      \
    {                                                            \
#member, KIND_RAW, (flags) | IS_EMPTY_OK, AT(member), 1, \
            sizeof(((struct batch_conf *)0)->member), NULL       \
    }
static const struct json_field fields[] = {
    {"launcher", KIND_STRING, IS_EMPTY_OK, offsetof(struct file, launcher), 1,
     15, bad_launcher},
    TEXT(program, 0),
    TEXT(mpi, 0),
    TEXT(worker, 0),
    {"cpus_per_gpu", KIND_I32, 0, AT(cpus_per_gpu), 0, INT32_MAX, NULL},
    TEXT(gpu_type, IS_SPARSE),
};
static const struct json_struct table = {NULL, JSON_FIELDS(fields)};

static int get_all(json_t *o, struct batch_conf *ret, struct error *err)
{
    struct file f = {.launcher = NULL};
    struct members all;
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "not a JSON object");
    json_members_of_json(o, &all);
    if (json_struct_read(&table, &all, 0, &f, err) < 0)
        return -1;
    f.conf.launcher = strcmp(f.launcher, launchers[BATCH_SRUN]) == 0
                          ? BATCH_SRUN
                          : BATCH_MPIRUN;
    if (check(&f.conf, err) < 0)
        return -1;
    *ret = f.conf;
    return 0;
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
    int rc = get_all(o, ret, err);
    json_decref(o);
    return rc < 0 ? error_wrap(err, "batch.json") : 0;
}

int batch_conf_encode(const struct batch_conf *c, struct buf *out,
                      struct error *err)
{
    if (check(c, err) < 0)
        return error_wrap(err, "batch.json");
    const struct file f = {.launcher = launchers[c->launcher], .conf = *c};
    struct buf text = BUF_INIT;
    struct error why = {.code = ERR_NOMEM, .msg = "out of memory"};
    json_t *o = json_object();
    int rc = o && json_struct_write(&table, &f, o, &why) == 0
                 ? json_struct_dump(o, &text, &why)
                 : -1;
    json_decref(o);
    if (rc < 0)
        rc = error_set(err, why.code, "batch.json: %s",
                       why.code == ERR_INVAL ? "a path is not UTF-8" : why.msg);
    else
        rc = buf_addf(out, err, "%s\n", buf_str(&text));
    buf_clear(&text);
    return rc;
}
