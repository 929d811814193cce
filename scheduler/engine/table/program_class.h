/* program_class.h - which commands are runs of one program.
 *
 * A sweep over --lr is a hundred command lines, each a workload class of its
 * own, of one program. Two command lines are of one program if they differ in
 * nothing but numbers and paths:
 *
 *   /opt/bin/python3 train.py --lr 1e-3 seed=7 -j4 --data=/d/a --amp
 *   python3 train.py --lr # seed=# -j# --data=@ --amp
 *
 * The text has the words in their order, with a blank between:
 *
 *   the program  the first word, and what stands after "&&" and the like,
 *                without its folders. After an interpreter or a launcher
 *                (python, torchrun, mpirun ...) the script, too: the first word
 *                that ends as scripts do, or a path that is not the value of a
 *                --option; and the module after -m, after which a script
 *                follows if it launches, too (torch.distributed.run ...)
 *   #            a number: signed, decimal, with an exponent, hexadecimal, or
 *                several with commas between; as a word, after the "=" of an
 *                option or a key, or after the letter of a short option
 *   @            a path: a word or a value with a slash, or with an extension
 *                of 1 to 5 letters and digits
 *
 * A word with blanks in it, as after sh -c, is taken word by word. All other
 * words count as they are.
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_PROGRAM_CLASS_H
#define MGPU_SCHEDULER_ENGINE_TABLE_PROGRAM_CLASS_H

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"

/* Appends the text. Any bytes are taken: a command is a user's. */
int program_text(const struct spec_list *command, struct buf *out,
                 struct error *err) MUST_CHECK;

/* The name of the program of a job: "program/train.py-<hash of the text>".
 * own  *ret: the caller frees; NULL: it is no command, or an empty one */
int program_class(const struct job_spec *spec, char **ret,
                  struct error *err) MUST_CHECK;

/* Makes it the program of a user: train.py of another one is another program,
 * which neither teaches this one nor learns from it. The label stays. */
void program_class_set_user(char *io, const char *user);

#endif
