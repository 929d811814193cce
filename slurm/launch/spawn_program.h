/* spawn_program.h - start a program that reads nothing, from a process that
 * blocks signals. */
#ifndef MGPU_SLURM_LAUNCH_SPAWN_PROGRAM_H
#define MGPU_SLURM_LAUNCH_SPAWN_PROGRAM_H

#include <sys/types.h>

/* Starts a program, with its standard input at /dev/null, the signals' usual
 * actions, and none of them blocked.
 * in   program  a path, or a name for $PATH
 *      argv     ends with NULL
 *      out      becomes its standard output and error; -1: it has those of the
 *               caller
 * Returns 0 or an errno, as posix_spawn(3). */
int spawn_program(const char *program, char *const argv[], int out, pid_t *ret);

#endif
