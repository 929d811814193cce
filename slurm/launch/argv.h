/* argv.h - build a NULL-terminated array of strings for execve(2).
 *
 * The caller collects the strings in a buf, each with its NUL (buf_addf() with
 * "%c" and '\0' adds a formatted one); argv_take() then makes one block of
 * memory that holds pointers and strings. */
#ifndef MGPU_SLURM_LAUNCH_ARGV_H
#define MGPU_SLURM_LAUNCH_ARGV_H

#include "jobs/base/buf.h"

int argv_add(struct buf *b, const char *word, struct error *err) MUST_CHECK;

/* Returns the words so far, terminated by NULL. Clears b, also after a failure.
 * own  one free() ends the array and the strings */
char **argv_take(struct buf *b, struct error *err) MUST_CHECK;

#endif
