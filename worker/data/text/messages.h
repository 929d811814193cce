/* messages.h - the messages of a row of data, by role, as the template of its
 * columns says.
 *
 * src  torchtune 0.6.1, torchtune/data/_messages.py and datasets; the words of
 *      alpaca are Stanford's: stanford_alpaca, train.py
 */
#ifndef MGPU_WORKER_DATA_TEXT_MESSAGES_H
#define MGPU_WORKER_DATA_TEXT_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/spec/spec_text.h"

enum message_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_IPYTHON };

struct message {
    enum message_role role;
    bool labelled;    /* its tokens count in the loss */
    const char *text; /* borrowed, or joined */
    char *joined;     /* the parts of a list; owned; NULL: it is a text */
};

enum { MESSAGES_MAX = 1024, MESSAGES_KEYS = 8 };

struct messages {
    struct message list[MESSAGES_MAX];
    int32_t n;
    int32_t n_prompt;  /* of template prompt_completion: the first of them */
    struct buf prompt; /* the text that alpaca makes of two columns */
    /* Keys of messages that are not read, each once; borrowed of the rows since
     * messages_forget_keys(). */
    const char *unread[MESSAGES_KEYS];
    int32_t n_unread;
};

struct messages_conf {
    /* Neither completion nor tokens; with prompt_completion both columns are
     * lists of messages. */
    enum spec_template template;
    const struct spec_map *columns;
    const char *system_prompt; /* in place of the row's; NULL: as the row has */
    bool train_on_input;
};

/* Which answer of template preference; others have one. */
enum messages_side { SIDE_CHOSEN, SIDE_REJECTED };

/* out  ret  the prompt is kept for the next call; messages_clear() ends it.
 *           Valid as long as the row and the next call
 * err  ERR_INVAL a column is missing or has another type, a role is unknown,
 *      roles do not take turns, the answer is empty; ERR_NOMEM */
int messages_of_row(const struct messages_conf *conf, const json_t *row,
                    enum messages_side side, struct messages *ret,
                    struct error *err) MUST_CHECK;
void messages_clear(struct messages *m);
/* The rows of the keys in `unread` are over. */
void messages_forget_keys(struct messages *m);

/* "system", "user", "assistant", "ipython". */
const char *message_role_name(enum message_role role);

#endif
