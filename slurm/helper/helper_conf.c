/* helper_conf.c - the command line of mgpu-slurm-helper.
 *
 * The daemon starts the helper; only this command line decides what the helper
 * may do, not the daemon's later commands. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm/helper/helper.h"

const char helper_usage[] =
    "usage: mgpu-slurm-helper --cluster NAME --batch PATH --worker PATH\n"
    "  [--conf FILE] [--call-timeout S] [--poll S] [--limit-margin S]\n"
    "  [--partition P] [--account A] [--qos Q] [--constraint C]\n"
    "  [--reservation R] [--gpu-type T] [--exclusive] [--cpus-per-gpu N]\n"
    "  [--memory-per-gpu BYTES] [--launcher srun|mpirun] [--srun PATH]\n"
    "  [--mpirun PATH] [--mpi NAME] [--system] [--allow-root]\n"
    "(mgpu-ctld starts it, with sockets as descriptors 3 and 4)\n";

enum opt {
    OPT_CLUSTER = 256,
    OPT_CONF,
    OPT_CALL_TIMEOUT,
    OPT_POLL,
    OPT_LIMIT_MARGIN,
    OPT_PARTITION,
    OPT_ACCOUNT,
    OPT_QOS,
    OPT_CONSTRAINT,
    OPT_RESERVATION,
    OPT_GPU_TYPE,
    OPT_EXCLUSIVE,
    OPT_CPUS_PER_GPU,
    OPT_MEMORY_PER_GPU,
    OPT_LAUNCHER,
    OPT_SRUN,
    OPT_MPIRUN,
    OPT_MPI,
    OPT_BATCH,
    OPT_WORKER,
    OPT_SYSTEM,
    OPT_ALLOW_ROOT
};

static const struct option options[] = {
    {"cluster", required_argument, NULL, OPT_CLUSTER},
    {"conf", required_argument, NULL, OPT_CONF},
    {"call-timeout", required_argument, NULL, OPT_CALL_TIMEOUT},
    {"poll", required_argument, NULL, OPT_POLL},
    {"limit-margin", required_argument, NULL, OPT_LIMIT_MARGIN},
    {"partition", required_argument, NULL, OPT_PARTITION},
    {"account", required_argument, NULL, OPT_ACCOUNT},
    {"qos", required_argument, NULL, OPT_QOS},
    {"constraint", required_argument, NULL, OPT_CONSTRAINT},
    {"reservation", required_argument, NULL, OPT_RESERVATION},
    {"gpu-type", required_argument, NULL, OPT_GPU_TYPE},
    {"exclusive", no_argument, NULL, OPT_EXCLUSIVE},
    {"cpus-per-gpu", required_argument, NULL, OPT_CPUS_PER_GPU},
    {"memory-per-gpu", required_argument, NULL, OPT_MEMORY_PER_GPU},
    {"launcher", required_argument, NULL, OPT_LAUNCHER},
    {"srun", required_argument, NULL, OPT_SRUN},
    {"mpirun", required_argument, NULL, OPT_MPIRUN},
    {"mpi", required_argument, NULL, OPT_MPI},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"worker", required_argument, NULL, OPT_WORKER},
    {"system", no_argument, NULL, OPT_SYSTEM},
    {"allow-root", no_argument, NULL, OPT_ALLOW_ROOT},
    {NULL, 0, NULL, 0}};

static const char *name_of(int opt)
{
    for (const struct option *o = options; o->name; o++)
        if (o->val == opt)
            return o->name;
    return "?";
}

static int number(int opt, const char *text, double min, double max,
                  double *ret, struct error *err)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= min && v <= max))
        return error_set(err, ERR_USAGE, "--%s: '%s' must be %g..%g",
                         name_of(opt), text, min, max);
    *ret = v;
    return 0;
}

static int absolute(int opt, const char *text, const char **ret,
                    struct error *err)
{
    if (text[0] != '/')
        return error_set(err, ERR_USAGE, "--%s: '%s' is not an absolute path",
                         name_of(opt), text);
    *ret = text;
    return 0;
}

static int take_launcher(const char *text, struct helper_conf *c,
                         struct error *err)
{
    if (strcmp(text, "srun") != 0 && strcmp(text, "mpirun") != 0)
        return error_set(err, ERR_USAGE, "--launcher: srun or mpirun, not '%s'",
                         text);
    c->launcher = text[0] == 's' ? BATCH_SRUN : BATCH_MPIRUN;
    return 0;
}

static int take_number(int opt, const char *arg, struct helper_conf *c,
                       struct error *err)
{
    double v;
    switch (opt) {
    case OPT_CALL_TIMEOUT: /* whole seconds; libslurm gives up one second
                            * earlier */
        return number(opt, arg, 2, 3600, &c->call_timeout_s, err);
    case OPT_POLL:
        return number(opt, arg, 0.05, 3600, &c->poll_s, err);
    case OPT_LIMIT_MARGIN:
        return number(opt, arg, 0, 86400, &c->limit_margin_s, err);
    case OPT_CPUS_PER_GPU:
        if (number(opt, arg, 1, 4096, &v, err) < 0)
            return -1;
        c->where.cpus_per_gpu = (int32_t)v;
        return 0;
    default:
        if (number(opt, arg, 0, 0x1p60, &v, err) < 0)
            return -1;
        c->memory_per_gpu = (int64_t)v;
        return 0;
    }
}

static int take(int opt, const char *arg, struct helper_conf *c,
                struct error *err)
{
    const struct {
        int opt;
        const char **to;
    } words[] = {{OPT_CLUSTER, &c->cluster},
                 {OPT_PARTITION, &c->where.partition},
                 {OPT_ACCOUNT, &c->where.account},
                 {OPT_QOS, &c->where.qos},
                 {OPT_CONSTRAINT, &c->where.constraint},
                 {OPT_RESERVATION, &c->where.reservation},
                 {OPT_GPU_TYPE, &c->where.gpu_type},
                 {OPT_SRUN, &c->srun},
                 {OPT_MPIRUN, &c->mpirun},
                 {OPT_MPI, &c->mpi}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (words[i].opt == opt) {
            *words[i].to = arg;
            return 0;
        }
    switch (opt) {
    case OPT_CONF:
        return absolute(opt, arg, &c->slurm_conf, err);
    case OPT_BATCH:
        return absolute(opt, arg, &c->batch, err);
    case OPT_WORKER:
        return absolute(opt, arg, &c->worker, err);
    case OPT_LAUNCHER:
        return take_launcher(arg, c, err);
    case OPT_EXCLUSIVE:
        c->where.exclusive = true;
        return 0;
    case OPT_SYSTEM:
        c->is_system = true;
        return 0;
    case OPT_ALLOW_ROOT:
        c->may_root = true;
        return 0;
    case '?':
        return error_set(err, ERR_USAGE, "an unknown option, or no value");
    default:
        return take_number(opt, arg, c, err);
    }
}

/* The values are used in commands, so the same rules apply. */
static int check_words(const struct helper_conf *c, struct error *err)
{
    struct helper_cmd cmd = {.op = HELPER_SUBMIT,
                             .req = {.job = 1,
                                     .attempt = 1,
                                     .name = "x",
                                     .tag = "mgpu:x",
                                     .nodes = 1,
                                     .dir = "/x",
                                     .launch = "{}",
                                     .where = c->where}};
    struct helper_cmd tag = cmd;
    char text[HELPER_TAG_CAP];
    size_t n = strlen(c->cluster);
    if (n == 0 || n > 64)
        return error_set(err, ERR_USAGE, "--cluster: must have 1..64 bytes");
    (void)snprintf(text, sizeof(text), "mgpu:%s", c->cluster);
    tag.req.tag = text;
    struct buf b = BUF_INIT;
    int rc = helper_cmd_encode(&cmd, &b, err);
    if (rc == 0 && (helper_cmd_encode(&tag, &b, NULL) < 0 ||
                    strchr(c->cluster, ':') != NULL))
        rc = error_set(err, ERR_USAGE, "--cluster: '%s' is not a name",
                       c->cluster);
    buf_clear(&b);
    if (rc < 0 && err)
        err->code = ERR_USAGE;
    return rc;
}

static int check_batch(const struct helper_conf *c, struct error *err)
{
    struct batch_conf bc;
    struct buf b = BUF_INIT;
    if (helper_batch_conf(c, NULL, c->where.cpus_per_gpu, &bc, err) < 0)
        return -1;
    int rc = batch_conf_encode(&bc, &b, err);
    buf_clear(&b);
    if (rc < 0 && err)
        err->code = ERR_USAGE;
    return rc;
}

int helper_conf_parse(int argc, char **argv, struct helper_conf *ret,
                      struct error *err)
{
    const char *conf = getenv("SLURM_CONF");
    struct helper_conf c = {
        .slurm_conf = conf && conf[0] == '/' ? conf : "/etc/slurm/slurm.conf",
        .call_timeout_s = 5,
        .poll_s = 1,
        .where = {.cpus_per_gpu = 4},
        .limit_margin_s = 120,
        .srun = "srun",
        .mpirun = "mpirun",
        .mpi = "pmix"};
    int opt;
    optind = 1;
    opterr = 0;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (take(opt, optarg, &c, err) < 0)
            return -1;
    if (optind != argc)
        return error_set(err, ERR_USAGE, "'%s' is no option", argv[optind]);
    if (c.cluster == NULL || c.batch == NULL || c.worker == NULL)
        return error_set(err, ERR_USAGE,
                         "--cluster, --batch and --worker are needed");
    if (c.is_system && geteuid() != 0)
        return error_set(err, ERR_DENIED, "--system needs root");
    if (check_words(&c, err) < 0 || check_batch(&c, err) < 0)
        return -1;
    *ret = c;
    return 0;
}

int helper_batch_conf(const struct helper_conf *c, const char *gpu_type,
                      int32_t cpus_per_gpu, struct batch_conf *ret,
                      struct error *err)
{
    bool is_srun = c->launcher == BATCH_SRUN;
    const char *program = is_srun ? c->srun : c->mpirun;
    *ret = (struct batch_conf){.launcher = c->launcher,
                               .cpus_per_gpu = cpus_per_gpu};
    if (strlen(program) >= sizeof(ret->program) ||
        strlen(c->mpi) >= sizeof(ret->mpi) ||
        (gpu_type && strlen(gpu_type) >= sizeof(ret->gpu_type)) ||
        strlen(c->worker) >= sizeof(ret->worker))
        return error_set(err, ERR_USAGE, "a program's path is too long");
    if (gpu_type)
        memcpy(ret->gpu_type, gpu_type, strlen(gpu_type) + 1);
    memcpy(ret->program, program, strlen(program) + 1);
    memcpy(ret->mpi, c->mpi, strlen(c->mpi) + 1);
    memcpy(ret->worker, c->worker, strlen(c->worker) + 1);
    return 0;
}
