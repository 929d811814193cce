/* chat_template.h - the chat format of a model's directory: a program in Jinja,
 * in tokenizer_config.json or in a file of its own. It is not run: a template
 * of a published model is recognised by a digest of its text without white
 * space (chat_known.def), and chat_table.h has what it writes. */
#ifndef MGPU_WORKER_DATA_CHAT_CHAT_TEMPLATE_H
#define MGPU_WORKER_DATA_CHAT_CHAT_TEMPLATE_H

#include <stdbool.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

/* Whether the directory has one. A file that cannot be read counts as absent.
 */
bool chat_template_is_in(const char *dir);

/* Its text, into an empty buffer: of several the one named default, or nothing.
 * False: there is none. */
bool chat_template_read(const char *dir, struct buf *ret);

/* The format of the directory's template; PROMPT_NONE: it has none.
 * err  ERR_INVAL it is not known; the message names the nearest format and how
 *      to choose it. ERR_EXTERN, ERR_NOMEM */
int chat_template_find(const char *dir, enum spec_prompt *ret,
                       struct error *err) MUST_CHECK;

/* The directory whose template a job's messages have: that of the tokenizer it
 * names, or of the model. */
const char *chat_template_dir(const struct job_spec *s);

/* The format of rows, never PROMPT_AUTO.
 * in   rows  messages or others, which have none
 * err  as chat_template_find() */
int chat_template_choose(const struct job_spec *s, enum spec_template rows,
                         enum spec_prompt *ret, struct error *err) MUST_CHECK;

/* The format in which the model of a job learns to end its answers: that of its
 * key, or with auto that of the template in chat_template_dir(), whatever its
 * rows are. PROMPT_NONE: the template is not known, or there is none. */
enum spec_prompt chat_template_learned(const struct job_spec *s);

#endif
