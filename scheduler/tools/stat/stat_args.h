/* stat_args.h - the command line of mgpu-stat. */
#ifndef MGPU_SCHEDULER_TOOLS_STAT_STAT_ARGS_H
#define MGPU_SCHEDULER_TOOLS_STAT_STAT_ARGS_H

#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/tools/export/export.h"
#include "scheduler/tools/export/report.h"
#include "scheduler/tools/views/fetch.h"

enum {
    OPT_METRICS = 1,
    OPT_EPOCHS,
    OPT_PROFILE,
    OPT_EFF,
    OPT_SCALING,
    OPT_EVENTS,
    OPT_WHY,
    OPT_LOGS,
    OPT_FOLLOW,
    OPT_RANK,
    OPT_NODES,
    OPT_GPUS,
    OPT_STATUS,
    OPT_USAGE,
    OPT_BY,
    OPT_WAIT,
    OPT_WATCH,
    OPT_TOP,
    OPT_PLOT,
    OPT_REPORT,
    OPT_EXPORT,
    OPT_OUTPUT,
    OPT_INTERVAL,
    OPT_TIMEOUT,
    OPT_FORMAT,
    OPT_SORT,
    OPT_COUNT,
    OPT_EXPAND,
    OPT_PAPER, /* --report of a paper's table */
    OPT_JSON,
    OPT_NOHEADER,
    OPT_COLOR
};

extern const struct tool stat_tool;

struct stat_args {
    int view; /* OPT_METRICS .. OPT_WAIT; 0: the queue or the jobs */
    double timeout_s, interval_s;
    uint32_t wait_states;
    bool has_rank, has_format;
    int colour; /* render_colour() */
    bool waits; /* --wait; together with --logs it is not a view */
    struct filter filter;
    const char *url;
    const char *file, *output; /* output NULL: standard output */
    const char *by;            /* --usage; NULL: user */
    bool exports;
    enum export_format format;
    struct report_conf report;
    struct fetch f; /* what to request, and how to print it */
};

/* For options_parse(); arg is a struct stat_args. */
int stat_on_option(void *arg, const struct opt *o, const char *value,
                   struct error *err) MUST_CHECK;
/* Takes the format of --output from its suffix, unless --export has one.
 * err  ERR_USAGE it has none that is known */
int stat_settle(struct stat_args *a, struct error *err) MUST_CHECK;
/* Checks the combination of options with n operands. err ERR_USAGE */
int stat_check(const struct stat_args *a, int n, struct error *err) MUST_CHECK;

/* Whether jobs were named and columns requested: prints a table of these
 * jobs. */
bool stat_is_rows(const struct stat_args *a, int n);

#endif
