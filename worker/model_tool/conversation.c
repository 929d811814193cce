/* conversation.c - see conversation.h. */
#include "worker/model_tool/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "worker/data/chat/chat_template.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/model_tool/args.h"

/* ---- messages ------------------------------------------------------------ */

static int add_text(struct buf *out, const char *text, size_t len,
                    struct error *err)
{
    static const char replaced[] = "\xef\xbf\xbd"; /* U+FFFD */
    const char *p = text, *end = text + len;
    while (p < end) {
        const char *at = p;
        const bool is_bad = *at == '\0' || text_next(&p, end) < 0;
        p = p == at ? at + 1 : p; /* a NUL would end the message */
        if (buf_add(out, is_bad ? replaced : at,
                    is_bad ? sizeof(replaced) - 1 : (size_t)(p - at), err) < 0)
            return -1;
    }
    return 0;
}

int conversation_add(struct conversation *c, enum message_role role,
                     const char *text, size_t len, struct error *err)
{
    struct buf whole = BUF_INIT;
    struct messages *m = c->messages;
    char *own = NULL;
    if (m->n < MESSAGES_MAX && add_text(&whole, text, len, err) == 0)
        own = strdup(buf_str(&whole));
    buf_clear(&whole);
    if (own == NULL)
        return error_set(err, ERR_NOMEM, "a message");
    m->list[m->n++] =
        (struct message){.role = role, .text = own, .joined = own};
    return 0;
}

/* Removes messages [first, first + n), whose texts are still owned. */
static void take_out(struct messages *m, int32_t first, int32_t n)
{
    m->n -= n;
    memmove(&m->list[first], &m->list[first + n],
            (size_t)(m->n - first) * sizeof(m->list[0]));
}

static void drop(struct messages *m, int32_t first, int32_t n)
{
    for (int32_t i = first; i < first + n; i++)
        free(m->list[i].joined);
    take_out(m, first, n);
}

void conversation_drop_last(struct conversation *c)
{
    drop(c->messages, c->messages->n - 1, 1);
}

void conversation_restart(struct conversation *c)
{
    drop(c->messages, c->n_system, c->messages->n - c->n_system);
}

/* Takes the oldest messages out of `m` until there is room for the rest. */
static int find_room(const struct conversation *c, struct messages *m,
                     int32_t most, struct buf *ids, struct error *err)
{
    for (;;) {
        const bool is_last = m->n == c->n_system + 1;
        buf_reset(ids);
        /* Of one more question and its answer, and of an empty message. */
        const bool has_room = m->n < MESSAGES_MAX - 3;
        if (has_room && chat_format_ask(&c->format, m, ids, err) < 0)
            return -1;
        const size_t n = ids->len / sizeof(int32_t);
        if (has_room && n <= (size_t)most)
            return 0;
        if (is_last)
            return error_set(err, ERR_INVAL,
                             "a message of %zu tokens, with what stands around "
                             "it, where the context has room for %d",
                             n, most);
        take_out(m, c->n_system, 2);
    }
}

int conversation_ask(struct conversation *c, int32_t most, struct buf *ids,
                     int32_t *ret_dropped, struct error *err)
{
    struct messages *m = c->messages;
    struct messages *some = malloc(sizeof(*some)); /* texts are those of m */
    *ret_dropped = 0;
    if (some == NULL)
        return error_set(err, ERR_NOMEM, "messages");
    *some = *m;
    int rc = find_room(c, some, most, ids, err);
    if (rc == 0) {
        *ret_dropped = m->n - some->n;
        drop(m, c->n_system, *ret_dropped);
    }
    free(some);
    return rc;
}

/* ---- the format ---------------------------------------------------------- */

static int format_of_dir(struct conversation *c, const char *dir,
                         struct error *err)
{
    if (chat_template_find(dir, &c->prompt, err) < 0)
        return error_wrap(err, "a job of --data may name the format");
    if (c->prompt == PROMPT_NONE)
        return error_set(err, ERR_INVAL,
                         "%s has no chat template: name the job that the model "
                         "has its format from by --data FILE",
                         dir);
    return chat_tokenizer_open(c->prompt, dir, &c->tokenizer, err);
}

static int format_of_job(struct conversation *c, const char *dir,
                         const struct job_spec *s, struct error *err)
{
    c->prompt = s->train.tokenizer.prompt_template;
    const char *from = chat_template_dir(s);
    if (c->prompt == PROMPT_AUTO)
        c->prompt = PROMPT_NONE;
    if (s->train.tokenizer.prompt_template == PROMPT_AUTO &&
        chat_template_find(from != NULL ? from : dir, &c->prompt, err) < 0)
        return -1;
    return chat_tokenizer_open(
        c->prompt,
        s->train.tokenizer.path != NULL ? s->train.tokenizer.path : dir,
        &c->tokenizer, err);
}

/* The system's message, which a format may not have. */
static int add_system(struct conversation *c, const char *text,
                      struct error *err)
{
    struct buf ids = BUF_INIT;
    int32_t dropped;
    if (conversation_add(c, ROLE_SYSTEM, text, strlen(text), err) < 0)
        return -1;
    c->n_system = 1;
    int rc = conversation_add(c, ROLE_USER, "?", 1, err);
    rc = rc < 0 ? rc : conversation_ask(c, INT32_MAX, &ids, &dropped, err);
    conversation_restart(c);
    buf_clear(&ids);
    return rc < 0 ? error_wrap(err, "--system") : 0;
}

int conversation_open(struct conversation *ret, const char *dir,
                      const char *file, int32_t eos, const char *system,
                      struct error *err)
{
    struct job_spec s;
    *ret =
        (struct conversation){.messages = calloc(1, sizeof(struct messages))};
    if (ret->messages == NULL)
        return error_set(err, ERR_NOMEM, "messages");
    if (file != NULL && model_args_job(file, &s, err) < 0)
        return -1;
    int rc = file != NULL ? format_of_job(ret, dir, &s, err)
                          : format_of_dir(ret, dir, err);
    rc = rc < 0 ? rc
                : chat_format_init(&ret->format, ret->tokenizer, ret->prompt,
                                   eos, 0, err);
    if (system == NULL && file != NULL)
        system = s.train.dataset.new_system_prompt;
    if (rc == 0 && system != NULL)
        rc = add_system(ret, system, err);
    if (file != NULL)
        spec_clear(&s);
    return rc;
}

void conversation_clear(struct conversation *c)
{
    if (c->messages != NULL)
        messages_clear(c->messages);
    free(c->messages);
    tokenizer_close(c->tokenizer);
    *c = (struct conversation){.tokenizer = NULL};
}
