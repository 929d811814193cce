/* paths.h - where the daemon keeps things, and finds its programs. */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_PATHS_H
#define MGPU_SCHEDULER_CTLD_STARTUP_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

/* $XDG_STATE_HOME/mgpu, else ~/.local/state/mgpu. */
int paths_personal_state(char *ret, size_t cap, struct error *err) MUST_CHECK;

/* path made absolute; it need not exist. */
int paths_absolute(const char *path, char *ret, size_t cap,
                   struct error *err) MUST_CHECK;

/* Creates what is missing of an absolute directory, 0700, and checks that it
 * is ours and that nobody else may write to it.
 * err  ERR_CONFIG it is not */
int paths_private_dir(const char *dir, struct error *err) MUST_CHECK;
/* The same for the directory that a file will be in. */
int paths_private_parent(const char *file, struct error *err) MUST_CHECK;

/* A program of ours: beside our own executable, in ../libexec/mgpu or
 * ../lib/mgpu from there, or on PATH.
 * err  ERR_CONFIG it is in none of them */
int paths_program(const char *name, char *ret, size_t cap,
                  struct error *err) MUST_CHECK;

/* Whether execvp(3) finds such a program. */
bool paths_finds(const char *program);

#endif
