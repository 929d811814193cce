/* one_line.h - a job from the command line alone: mgpu-submit -- PROGRAM ...
 *
 * All words behind "--" are the command. They become a specification, which is
 * then read like that of a file, so that --set, templates and all checks work
 * alike. */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_ONE_LINE_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_ONE_LINE_H

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Takes the words behind the first "--" off the command line. The words stay
 * in argv.
 * out  *ret_words  NULL: there is no "--"
 * returns  how many words are left */
int one_line_split(int argc, char **argv, char ***ret_words);

/* The name of the program, from which the job's default name follows. */
const char *one_line_program(char *const *words);

/* Appends the specification: the command as it was typed, in the current
 * directory, with the caller's PATH. A "${" of the command is not replaced.
 * in   words  ends with NULL
 * err  ERR_USAGE no word; ERR_INVAL a word is not UTF-8 */
int one_line_spec(char *const *words, struct buf *out,
                  struct error *err) MUST_CHECK;

#endif
