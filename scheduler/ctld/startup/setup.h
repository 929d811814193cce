/* setup.h - which daemon the command line and the configuration ask for, and
 * whether this machine has what it needs. */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_SETUP_H
#define MGPU_SCHEDULER_CTLD_STARTUP_SETUP_H

#include "jobs/conf/conf.h"
#include "scheduler/ctld/args.h"
#include "scheduler/ctld/ctld.h"
#include "scheduler/ctld/startup/privileges.h"

enum daemon_kind {
    DAEMON_LOCAL,    /* this machine's devices, for the user who started it */
    DAEMON_PERSONAL, /* Slurm's, for that user */
    DAEMON_SYSTEM    /* Slurm's, for everybody; root started it */
};

enum { SETUP_PATH_CAP = 480 };

struct setup {
    enum daemon_kind kind;
    struct account who; /* SYSTEM: whom it becomes */
    int64_t socket_gid; /* SYSTEM: who may connect; 0: everybody */
    int64_t *admins;    /* [n_admins]; owned */
    size_t n_admins;
    char state_dir[SETUP_PATH_CAP], socket[SETUP_PATH_CAP],
        worker[SETUP_PATH_CAP];
};

/* Changes nothing on this machine.
 * own  ret: setup_clear()
 * err  ERR_USAGE, ERR_CONFIG with the key */
int setup_find(const struct args *a, const struct conf *conf, struct setup *ret,
               struct error *err) MUST_CHECK;
void setup_clear(struct setup *s); /* zeroed is fine */

/* Makes the state directory and the socket's, or checks them. SYSTEM: as
 * root; the paths in s are without links afterwards.
 * err  ERR_CONFIG somebody else's, or others may write to one */
int setup_dirs(struct setup *s, struct error *err) MUST_CHECK;

/* ret borrows from both. */
void setup_ctld(const struct conf *conf, const struct setup *s,
                struct ctld_conf *ret);

/* Everything that would keep a daemon with this configuration from starting
 * here, as far as it can be seen without starting it; one call of each() for
 * each. Returns how many. */
struct setup_lack {
    const struct error *why; /* begins with the key, if it is of one */
    int32_t line, column;    /* of that in the file; 0: it is not there */
};
typedef void setup_each_f(void *arg, const struct setup_lack *lack);
int setup_check(const struct conf *conf, setup_each_f *each, void *arg);
/* The same of what it starts without, and what somebody will miss: a launcher,
 * a service that may come later. */
int setup_doubts(const struct conf *conf, setup_each_f *each, void *arg);
/* The one of these checks that a reload repeats. err ERR_CONFIG */
int setup_check_notify(const struct conf *conf, struct error *err) MUST_CHECK;

#endif
