/* messages.c - see messages.h. */
#include "worker/data/text/messages.h"

#include <stdlib.h>
#include <string.h>

#include "worker/data/rows/row.h"

/* ---- one message --------------------------------------------------------- */

static const char *const roles[] = {[ROLE_SYSTEM] = "system",
                                    [ROLE_USER] = "user",
                                    [ROLE_ASSISTANT] = "assistant",
                                    [ROLE_IPYTHON] = "ipython"};

const char *message_role_name(enum message_role role)
{
    return roles[role];
}

static int role_of(const char *word, enum message_role *ret, struct error *err)
{
    static const struct {
        const char *word;
        enum message_role role;
    } words[] = {{"system", ROLE_SYSTEM}, {"user", ROLE_USER},
                 {"human", ROLE_USER},    {"assistant", ROLE_ASSISTANT},
                 {"gpt", ROLE_ASSISTANT}, {"ipython", ROLE_IPYTHON},
                 {"tool", ROLE_IPYTHON}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, word) == 0) {
            *ret = words[i].role;
            return 0;
        }
    return error_set(err, ERR_INVAL,
                     "role '%.40s', expected system, user or human, assistant "
                     "or gpt, tool",
                     word);
}

static void forget(struct messages *m)
{
    for (int32_t i = 0; i < m->n; i++)
        free(m->list[i].joined);
    m->n = 0;
}

static int add(const struct messages_conf *c, struct messages *m,
               enum message_role role, const char *text, struct error *err)
{
    const bool labelled =
        role == ROLE_ASSISTANT || (c->train_on_input && role != ROLE_SYSTEM);
    if (m->n == MESSAGES_MAX)
        return error_set(err, ERR_INVAL, "more than %d messages", MESSAGES_MAX);
    m->list[m->n++] =
        (struct message){.role = role, .labelled = labelled, .text = text};
    return 0;
}

/* ---- columns of texts ---------------------------------------------------- */

static int add_alpaca(const struct messages_conf *c, const json_t *row,
                      struct messages *m, struct error *err)
{
    static const char with_input[] =
        "Below is an instruction that describes a task, paired with an input "
        "that provides further context. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n";
    static const char without_input[] =
        "Below is an instruction that describes a task. Write a response that "
        "appropriately completes the request.\n\n### Instruction:\n";
    const char *task, *input, *output;
    if (row_column_text(row, c->columns, "instruction", true, &task, err) < 0 ||
        row_column_text(row, c->columns, "input", false, &input, err) < 0 ||
        row_column_text(row, c->columns, "output", true, &output, err) < 0)
        return -1;
    const bool has = input != NULL && input[0] != '\0';
    /* Piece by piece: a row may hold what looks like a directive of
     * printf(). */
    const char *const parts[] = {has ? with_input : without_input, task,
                                 has ? "\n\n### Input:\n" : "",
                                 has ? input : "", "\n\n### Response:\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (buf_addstr(&m->prompt, parts[i], err) < 0)
            return -1;
    if (add(c, m, ROLE_USER, buf_str(&m->prompt), err) < 0)
        return -1;
    return add(c, m, ROLE_ASSISTANT, output, err);
}

/* A question and its answer. */
static int add_pair(const struct messages_conf *c, const json_t *row,
                    const char *input, const char *output, struct messages *m,
                    struct error *err)
{
    const char *question, *answer;
    if (row_column_text(row, c->columns, input, true, &question, err) < 0 ||
        row_column_text(row, c->columns, output, true, &answer, err) < 0 ||
        add(c, m, ROLE_USER, question, err) < 0)
        return -1;
    return add(c, m, ROLE_ASSISTANT, answer, err);
}

/* The names that SAMSum has, unless a map gives others. */
static int add_samsum(const struct messages_conf *c, const json_t *row,
                      struct messages *m, struct error *err)
{
    if (c->columns != NULL && c->columns->n > 0)
        return add_pair(c, row, "input", "output", m, err);
    return add_pair(c, row, "dialogue", "summary", m, err);
}

/* ---- lists of messages --------------------------------------------------- */

/* Joins the parts of a content: [{"type":"text","text":".."}, ..].
 * own  *ret: the caller frees */
static int join_parts(const json_t *parts, char **ret, struct error *err)
{
    struct buf text = BUF_INIT;
    const json_t *v;
    size_t i;
    int rc = buf_addstr(&text, "", err);
    json_array_foreach(parts, i, v)
    {
        const char *type = json_string_value(json_object_get(v, "type"));
        const char *part = json_string_value(json_object_get(v, "text"));
        if (rc == 0 && type != NULL && strcmp(type, "text") != 0)
            rc = error_set(err, ERR_INVAL,
                           "part %zu of its content is of type '%.40s', only "
                           "text is trained on",
                           i + 1, type);
        if (rc == 0 && part == NULL)
            rc = error_set(err, ERR_INVAL,
                           "part %zu of its content has no text", i + 1);
        rc = rc < 0 ? rc : buf_addstr(&text, part, err);
    }
    *ret = rc == 0 ? buf_detach(&text) : NULL;
    buf_clear(&text);
    if (rc == 0 && *ret == NULL)
        rc = error_set(err, ERR_NOMEM, "content");
    return rc;
}

/* OpenAI's weight of an answer: 0, its tokens do not count; 1, they do. */
static int weigh(const json_t *weight, struct message *m, struct error *err)
{
    const double w = json_number_value(weight);
    if (weight == NULL || json_is_null(weight))
        return 0;
    if (!json_is_number(weight) || (w != 0 && w != 1))
        return error_set(err, ERR_INVAL, "weight is neither 0 nor 1");
    m->labelled = m->labelled && w != 0;
    return 0;
}

/* Notes the keys of a message that nothing reads. */
static void note_keys(const json_t *message, struct messages *m)
{
    static const char *const read[] = {"role", "content", "from", "value",
                                       "weight"};
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)message, key, v)
    {
        bool is_known = json_is_null(v);
        for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
            is_known = is_known || strcmp(key, read[i]) == 0;
        for (int32_t i = 0; i < m->n_unread; i++)
            is_known = is_known || strcmp(key, m->unread[i]) == 0;
        if (!is_known && m->n_unread < MESSAGES_KEYS)
            m->unread[m->n_unread++] = key;
    }
}

static int add_message(const struct messages_conf *c, const json_t *v,
                       struct messages *m, struct error *err)
{
    const char *role = json_string_value(json_object_get(v, "role"));
    const json_t *content = json_object_get(v, "content");
    char *joined = NULL;
    enum message_role r;
    if (role == NULL && content == NULL) {
        role = json_string_value(json_object_get(v, "from"));
        content = json_object_get(v, "value");
    }
    if (role == NULL || (!json_is_string(content) && !json_is_array(content)))
        return error_set(err, ERR_INVAL,
                         "no texts role and content, or from and value");
    if (role_of(role, &r, err) < 0)
        return -1;
    if (r == ROLE_SYSTEM && c->system_prompt != NULL)
        return 0;
    if (json_is_array(content) && join_parts(content, &joined, err) < 0)
        return -1;
    if (add(c, m, r, joined != NULL ? joined : json_string_value(content),
            err) < 0) {
        free(joined);
        return -1;
    }
    m->list[m->n - 1].joined = joined;
    note_keys(v, m);
    return weigh(json_object_get(v, "weight"), &m->list[m->n - 1], err);
}

static int add_listed(const struct messages_conf *c, const char *column,
                      size_t i, const json_t *v, struct messages *m,
                      struct error *err)
{
    if (add_message(c, v, m, err) < 0)
        return error_wrap(err, "column '%.80s': message %zu", column, i + 1);
    return 0;
}

static int add_list(const struct messages_conf *c, const json_t *row,
                    const char *column, struct messages *m, struct error *err)
{
    const char *name = row_column_name(c->columns, column);
    const json_t *list = row_column(row, c->columns, column);
    const json_t *v;
    size_t i;
    if (!json_is_array(list))
        return error_set(err, ERR_INVAL, "column '%.80s' is %s", name,
                         list == NULL ? "missing" : "no list of messages");
    json_array_foreach(list, i, v)
    {
        if (add_listed(c, name, i, v, m, err) < 0)
            return -1;
    }
    return 0;
}

static int add_chat(const struct messages_conf *c, const json_t *row,
                    struct messages *m, struct error *err)
{
    const bool sharegpt = row_column(row, c->columns, "messages") == NULL &&
                          row_column(row, c->columns, "conversations") != NULL;
    return add_list(c, row, sharegpt ? "conversations" : "messages", m, err);
}

/* The names that the pairs of Stack Exchange have, unless a map gives others.
 */
static bool is_stack_exchange(const struct messages_conf *c, const json_t *row)
{
    return (c->columns == NULL || c->columns->n == 0) &&
           json_object_get(row, "chosen") == NULL &&
           json_object_get(row, "response_j") != NULL;
}

/* Two lists of messages, two messages behind a conversation, or two answers to
 * a prompt, which is a text or a list of messages. */
static int add_preference(const struct messages_conf *c, const json_t *row,
                          enum messages_side side, struct messages *m,
                          struct error *err)
{
    const char *column = side == SIDE_CHOSEN ? "chosen" : "rejected";
    if (is_stack_exchange(c, row))
        return add_pair(c, row, "question",
                        side == SIDE_CHOSEN ? "response_j" : "response_k", m,
                        err);
    const json_t *answer = row_column(row, c->columns, column);
    const bool is_list = json_is_array(row_column(row, c->columns, "prompt"));
    if (is_list && add_list(c, row, "prompt", m, err) < 0)
        return -1;
    if (json_is_string(answer))
        return is_list
                   ? add(c, m, ROLE_ASSISTANT, json_string_value(answer), err)
                   : add_pair(c, row, "prompt", column, m, err);
    if (!json_is_object(answer))
        return add_list(c, row, column, m, err);
    if (!is_list && add_chat(c, row, m, err) < 0)
        return -1;
    return add_listed(c, row_column_name(c->columns, column), 0, answer, m,
                      err);
}

/* TRL's rows: what is behind the prompt counts, whose message it is. */
static int add_prompt_completion(const struct messages_conf *c,
                                 const json_t *row, struct messages *m,
                                 struct error *err)
{
    const char *name = row_column_name(c->columns, "completion");
    if (add_list(c, row, "prompt", m, err) < 0)
        return -1;
    m->n_prompt = m->n;
    for (int32_t i = 0; i < m->n; i++)
        m->list[i].labelled = c->train_on_input && m->list[i].labelled;
    if (add_list(c, row, "completion", m, err) < 0)
        return -1;
    if (m->n == m->n_prompt || m->list[m->n_prompt].role != ROLE_ASSISTANT)
        return error_set(err, ERR_INVAL,
                         "column '%.80s' begins with no answer: expected a "
                         "message of the assistant, which the prompt is for",
                         name);
    for (int32_t i = m->n_prompt; i < m->n; i++) {
        if (m->list[i].role == ROLE_ASSISTANT && !m->list[i].labelled)
            return error_set(err, ERR_INVAL,
                             "column '%.80s': message %d has weight 0, and all "
                             "of a completion counts: move it to the prompt, "
                             "or use template: chat",
                             name, i - m->n_prompt + 1);
        m->list[i].labelled = true;
    }
    return 0;
}

/* ---- all templates ------------------------------------------------------- */

/* torchtune's rule: a system message comes first, an answer follows a
 * question. */
static int check_turns(const struct messages *m, struct error *err)
{
    enum message_role last = ROLE_ASSISTANT;
    if (m->n < 2)
        return error_set(err, ERR_INVAL, "%d messages, it needs 2", m->n);
    for (int32_t i = 0; i < m->n; i++) {
        const enum message_role role = m->list[i].role;
        if (role == ROLE_ASSISTANT && last != ROLE_USER)
            return error_set(err, ERR_INVAL,
                             "message %d is an answer, expected a question "
                             "before it",
                             i + 1);
        if (role == ROLE_USER && last == ROLE_USER)
            return error_set(err, ERR_INVAL,
                             "messages %d and %d are both of the user", i,
                             i + 1);
        if (role == ROLE_SYSTEM && i > 0)
            return error_set(err, ERR_INVAL,
                             "message %d is of the system, which comes first",
                             i + 1);
        last = role;
    }
    return 0;
}

static int check_answer(const struct messages *m, struct error *err)
{
    const struct message *last = &m->list[m->n - 1];
    if (last->role == ROLE_ASSISTANT &&
        last->text[strspn(last->text, " \t\r\n")] == '\0')
        return error_set(err, ERR_INVAL, "the answer is empty");
    return 0;
}

int messages_of_row(const struct messages_conf *conf, const json_t *row,
                    enum messages_side side, struct messages *ret,
                    struct error *err)
{
    int rc = 0;
    forget(ret);
    ret->n_prompt = 0;
    buf_reset(&ret->prompt);
    /* Stanford's words are the only instruction. */
    if (conf->system_prompt != NULL && conf->template != TEMPLATE_ALPACA)
        rc = add(conf, ret, ROLE_SYSTEM, conf->system_prompt, err);
    if (rc < 0)
        return -1;
    switch (conf->template) {
    case TEMPLATE_ALPACA:
        rc = add_alpaca(conf, row, ret, err);
        break;
    case TEMPLATE_SAMSUM:
        rc = add_samsum(conf, row, ret, err);
        break;
    case TEMPLATE_SLIMORCA:
        rc = add_list(conf, row, "conversations", ret, err);
        break;
    case TEMPLATE_CHAT:
        rc = add_chat(conf, row, ret, err);
        break;
    case TEMPLATE_PROMPT_COMPLETION:
        rc = add_prompt_completion(conf, row, ret, err);
        break;
    case TEMPLATE_PREFERENCE:
        rc = add_preference(conf, row, side, ret, err);
        break;
    case TEMPLATE_GRAMMAR:
    default:
        rc = add_pair(conf, row, "input", "output", ret, err);
        break;
    }
    if (rc < 0 || check_turns(ret, err) < 0)
        return -1;
    return check_answer(ret, err);
}

void messages_forget_keys(struct messages *m)
{
    m->n_unread = 0;
}

void messages_clear(struct messages *m)
{
    forget(m);
    buf_clear(&m->prompt);
}
