/* args.c - see args.h. The parser and --help read the same rows, and
 * tests/cli/pages.bats holds the man page against --help. */
#include "scheduler/ctld/args.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/version.h"

enum {
    OPT_LOCAL = 256,
    OPT_CONFIG,
    OPT_CHECK_CONFIG,
    OPT_FSCK,
    OPT_STATE_DIR,
    OPT_SOCKET,
    OPT_SLOTS,
    OPT_FOREGROUND,
    OPT_BACKGROUND,
    OPT_HELP,
    OPT_VERSION,
    SLOTS_MAX = 1024
};

static const struct {
    int id;
    const char *name, *arg, *doc;
} rows[] = {
    {OPT_LOCAL, "local", NULL, "serve this user, with this machine"},
    {OPT_CONFIG, "config", "FILE", "read mgpu.yaml from here"},
    {OPT_CHECK_CONFIG, "check-config", "[FILE]",
     "say what is wrong, or what is in effect, and exit"},
    {OPT_FSCK, "fsck", "DIR", "look through a state directory and exit"},
    {OPT_STATE_DIR, "state-dir", "DIR", "databases and job directories"},
    {OPT_SOCKET, "socket", "PATH", "where tools and workers connect"},
    {OPT_SLOTS, "slots", "N", "CPU slots that stand for GPUs"},
    {OPT_FOREGROUND, "foreground", NULL, "stay (the default)"},
    {OPT_BACKGROUND, "background", NULL, "return when it answers requests"},
    {OPT_HELP, "help", NULL, "print this help and exit"},
    {OPT_VERSION, "version", NULL, "print the version and exit"},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static void print_help(void)
{
    (void)puts("usage: mgpu-ctld [options]\n"
               "Accepts jobs, starts them and records what they report.\n\n"
               "options:");
    for (int i = 0; i < N_ROWS; i++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "    --%s%s%s", rows[i].name,
                       rows[i].arg ? " " : "", rows[i].arg ? rows[i].arg : "");
        (void)printf("  %-26s %s\n", left, rows[i].doc);
    }
    (void)puts("\nSee mgpu-ctld(8).");
}

static int parse_slots(const char *text, int32_t *ret, struct error *err)
{
    char *end = NULL;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > SLOTS_MAX)
        return error_set(err, ERR_USAGE, "--slots '%s': expected 1..%d", text,
                         (int)SLOTS_MAX);
    *ret = (int32_t)n;
    return 0;
}

static int take(struct args *a, int id, const char *value, struct error *err)
{
    switch (id) {
    case OPT_LOCAL:
        a->local = true;
        return 0;
    case OPT_CONFIG:
        a->config = value;
        return 0;
    case OPT_CHECK_CONFIG:
        a->checks_config = true;
        a->check_config = value ? value : a->check_config;
        return 0;
    case OPT_FSCK:
        a->fsck = value;
        return 0;
    case OPT_STATE_DIR:
        a->state_dir = value;
        return 0;
    case OPT_SOCKET:
        a->socket = value;
        return 0;
    case OPT_SLOTS:
        return parse_slots(value, &a->slots, err);
    case OPT_FOREGROUND:
    case OPT_BACKGROUND:
        a->background = id == OPT_BACKGROUND;
        return 0;
    case OPT_HELP:
        print_help();
        return ARGS_DONE;
    case OPT_VERSION:
        (void)printf("mgpu-ctld %s\n", MGPU_VERSION);
        return ARGS_DONE;
    default:
        return error_set(err, ERR_INTERNAL, "option %d", id);
    }
}

/* getopt_long() takes an optional value only after "=". The next word is one,
 * too, unless it is an option: all have two dashes. */
static const char *next_value(int argc, char **argv)
{
    return optind < argc && strncmp(argv[optind], "--", 2) != 0 ? argv[optind++]
                                                                : NULL;
}

/* --check-config without a file checks that of --config. */
static int choose_checked(struct args *io, struct error *err)
{
    if (!io->checks_config)
        return 0;
    if (!io->check_config)
        io->check_config = io->config;
    if (!io->check_config)
        return error_set(err, ERR_USAGE,
                         "'--check-config' needs a file: its value, or that "
                         "of --config");
    if (io->config && strcmp(io->config, io->check_config) != 0)
        return error_set(err, ERR_USAGE,
                         "--check-config '%s': another file than --config '%s'",
                         io->check_config, io->config);
    return 0;
}

static int kind_of(const char *arg)
{
    return !arg            ? no_argument
           : arg[0] == '[' ? optional_argument
                           : required_argument;
}

int args_parse(int argc, char **argv, struct args *ret, struct error *err)
{
    struct option longs[N_ROWS + 1] = {{0}};
    struct args a = {.slots = -1};
    for (int i = 0; i < N_ROWS; i++)
        longs[i] = (struct option){.name = rows[i].name,
                                   .has_arg = kind_of(rows[i].arg),
                                   .val = rows[i].id};
    opterr = 0;
    optind = 0; /* GNU: start afresh, also when called twice */
    for (;;) {
        int before = optind ? optind : 1;
        int c = getopt_long(argc, argv, ":", longs, NULL);
        if (c == -1)
            break;
        if (c == ':')
            return error_set(err, ERR_USAGE, "'%s' needs a value",
                             argv[before]);
        if (c == '?')
            return error_set(err, ERR_USAGE,
                             "unknown option '%s'; see mgpu-ctld --help",
                             argv[before]);
        const char *value =
            c == OPT_CHECK_CONFIG && !optarg ? next_value(argc, argv) : optarg;
        int rc = take(&a, c, value, err);
        if (rc != ARGS_RUN)
            return rc;
    }
    if (optind < argc)
        return error_set(err, ERR_USAGE, "unexpected argument '%s'",
                         argv[optind]);
    if (choose_checked(&a, err) < 0)
        return -1;
    *ret = a;
    return ARGS_RUN;
}
