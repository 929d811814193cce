/* args.c - see args.h. */
#include "worker/args.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/error.h"
#include "jobs/base/output.h"
#include "jobs/base/version.h"
#include "jobs/spec/spec.h"
#include "kernels/blas_host.h"

static const struct {
    const char *name, *value;
    int id;
    const char *doc;
} options[] = {
    {"launch", "FILE", 'l', "run the attempt that FILE describes"},
    {"standalone", "SPEC", 's', "run the job of SPEC without a daemon"},
    {"dir", "DIR", 'd', "with --standalone: the directory of all files"},
    {"alone", NULL, 'a', "be the only rank, without MPI"},
    {"program-mpi", NULL, 'm', "leave MPI to the job's program"},
    {"device", "DEVICE", 'D', "instead of train.device: auto, cuda or host"},
    {"help", NULL, 'h', "print this and exit"},
    {"version", NULL, 'v', "print the version and exit"},
};
enum { N_OPTIONS = sizeof(options) / sizeof(options[0]) };

static void print_help(void)
{
    (void)puts("usage: mgpu-worker --launch FILE [--alone | --program-mpi]\n"
               "       mpirun -n RANKS mgpu-worker --standalone SPEC "
               "[--dir DIR]\n"
               "       mpirun -n RANKS mgpu-worker --standalone SPEC "
               "--dir DIR --program-mpi\n"
               "       mgpu-worker --standalone SPEC [--dir DIR] --alone\n\n"
               "Runs one rank of a job. mgpu-ctld starts it, several under "
               "mpirun or srun.\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[40];
        (void)snprintf(left, sizeof(left), "--%s %s", options[i].name,
                       options[i].value != NULL ? options[i].value : "");
        (void)printf("      %-20s  %s\n", left, options[i].doc);
    }
    (void)puts("\nSee mgpu-worker(8).");
}

static int printed(void)
{
    struct error err = ERROR_INIT;
    if (output_close(stdout, &err) == 0)
        return 0;
    (void)fprintf(stderr, "mgpu-worker: %s\n", err.msg);
    return error_exit_status(err.code);
}

static int set_device(struct args *a, const char *value)
{
    static const char *const names[] = {
        [DEVICE_AUTO] = "auto", [DEVICE_CUDA] = "cuda", [DEVICE_HOST] = "host"};
    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
        if (strcmp(value, names[i]) == 0) {
            a->device = i;
            return 0;
        }
    (void)fprintf(stderr,
                  "mgpu-worker: --device is auto, cuda or host, not '%s'\n",
                  value);
    return -1;
}

static int set_option(struct args *a, int id, const char *value)
{
    switch (id) {
    case 'a':
        a->is_alone = true;
        return 0;
    case 'm':
        a->program_mpi = true;
        return 0;
    case 'D':
        return set_device(a, value);
    case 'l':
        a->launch = value;
        return 0;
    case 's':
        a->standalone = value;
        return 0;
    case 'd':
        a->dir = value;
        return 0;
    default:
        return -1; /* getopt_long has said what is wrong */
    }
}

/* Also prints the BLAS code that cv and llm compute with on a host. */
static void print_version(void)
{
    struct error err = ERROR_INIT;
    char products[400];
    (void)puts("mgpu-worker " MGPU_VERSION);
    if (blas_open(&err) < 0)
        (void)puts(err.msg);
    else {
        blas_describe(products, sizeof(products));
        (void)puts(products);
    }
}

int args_parse(int argc, char **argv, struct args *ret)
{
    struct args a = {.device = -1};
    struct option table[N_OPTIONS + 1] = {{NULL, 0, NULL, 0}};
    for (int i = 0; i < N_OPTIONS; i++) {
        table[i].name = options[i].name;
        table[i].has_arg =
            options[i].value != NULL ? required_argument : no_argument;
        table[i].val = options[i].id;
    }
    int id, bad = 0;
    while ((id = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (id == 'h' || id == 'v')
            output_quiet_pipe();
        if (id == 'h') {
            print_help();
            return printed();
        }
        if (id == 'v') {
            print_version();
            return printed();
        }
        bad |= set_option(&a, id, optarg);
    }
    bool has_one = (a.launch != NULL) != (a.standalone != NULL);
    if (bad == 0 && optind == argc && has_one &&
        (a.dir == NULL || a.standalone != NULL) &&
        (!a.program_mpi || a.launch != NULL || a.dir != NULL)) {
        *ret = a;
        return -1;
    }
    if (bad == 0)
        (void)fprintf(stderr, "mgpu-worker: expected either --launch FILE or "
                              "--standalone SPEC [--dir DIR], and perhaps "
                              "--alone and --device; --program-mpi with "
                              "--standalone needs --dir; try --help\n");
    return error_exit_status(ERR_USAGE);
}
