/* chat_template.h - the chat format of a model's directory: a program in Jinja,
 * in tokenizer_config.json or in a file. Messages are written as chat_format.h
 * says in any case, and the log warns of a template that is not used. */
#ifndef MGPU_WORKER_DATA_TEXT_CHAT_TEMPLATE_H
#define MGPU_WORKER_DATA_TEXT_CHAT_TEMPLATE_H

#include <stdbool.h>

/* Whether the directory has one. A file that cannot be read counts as absent.
 */
bool chat_template_is_in(const char *dir);

#endif
