/* chat_render.c - see chat_render.h.
 *
 * A row is a list of special tokens with texts between them. The text that has
 * not been tokenised yet is in `text`, and `cuts` says where in it what counts
 * begins and ends. */
#include "worker/data/chat/chat_render.h"

#include <string.h>

#include "jobs/text/text.h"
#include "worker/data/rows/token_cut.h"

struct chat_cut {
    size_t at; /* byte of the text */
    bool labelled;
};

struct output {
    const struct chat_render *r;
    struct buf *ids, *labels;
    struct buf text, cuts, work, head;
    bool is_behind; /* a special token is before the text */
    bool asks;      /* the model is to answer the last message */
    struct error *err;
};

/* ---- white space --------------------------------------------------------- */

/* White space as Python has it. */
static bool is_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 ||
           c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

const char *chat_render_strip(const char *text, size_t len, size_t *ret_len)
{
    const char *p = text, *end = text + len;
    const char *first = NULL, *last = text;
    while (p < end) {
        const char *at = p;
        if (is_space(text_next(&p, end)))
            continue;
        first = first != NULL ? first : at;
        last = p;
    }
    *ret_len = first != NULL ? (size_t)(last - first) : 0;
    return first != NULL ? first : text;
}

/* ---- ids of a text ------------------------------------------------------- */

static size_t ints_of(const struct buf *b)
{
    return b->len / sizeof(int32_t);
}

static int encode(const struct output *o, size_t len, struct buf *ret)
{
    return tokenizer_encode(o->r->tokenizer, buf_str(&o->text), len,
                            o->is_behind ? TOKENIZER_BEHIND : 0, ret, o->err);
}

/* The first of the text's n tokens that has a byte from `at` on: those before
 * it are the tokens of the text that ends there. */
static int token_at(struct output *o, const int32_t *ids, size_t n, size_t at,
                    size_t *ret)
{
    size_t same = 0;
    if (at == 0 || at == o->text.len) {
        *ret = at == 0 ? 0 : n;
        return 0;
    }
    buf_reset(&o->head);
    if (encode(o, at, &o->head) < 0)
        return -1;
    const int32_t *head = (const void *)o->head.data;
    while (same < n && same < ints_of(&o->head) && head[same] == ids[same])
        same++;
    *ret = same;
    return 0;
}

/* Labels for the ids that have none yet: those of the text. */
static int label_text(struct output *o)
{
    const struct chat_cut *cuts = (const void *)o->cuts.data;
    const size_t n_cuts = o->cuts.len / sizeof(*cuts);
    const size_t first = ints_of(o->labels), n = ints_of(o->ids) - first;
    static const int32_t none = -1;
    bool labelled = false;
    size_t done = 0;
    for (size_t i = 0; i <= n_cuts; i++) {
        /* Ids may move when the list of labels grows: read them here. */
        const int32_t *ids = (const int32_t *)(const void *)o->ids->data;
        size_t to = n;
        if (i < n_cuts && token_at(o, ids + first, n, cuts[i].at, &to) < 0)
            return -1;
        for (; done < to; done++)
            if (buf_add(o->labels, labelled ? &ids[first + done] : &none,
                        sizeof(none), o->err) < 0)
                return -1;
        labelled = i < n_cuts && cuts[i].labelled;
    }
    return 0;
}

static int flush(struct output *o)
{
    if (o->text.len > 0 &&
        (encode(o, o->text.len, o->ids) < 0 || label_text(o) < 0))
        return -1;
    buf_reset(&o->text);
    buf_reset(&o->cuts);
    return 0;
}

/* ---- pieces -------------------------------------------------------------- */

static int put_text(struct output *o, const char *text, size_t len,
                    bool labelled)
{
    const struct chat_cut *cuts = (const void *)o->cuts.data;
    const size_t n = o->cuts.len / sizeof(*cuts);
    const struct chat_cut cut = {.at = o->text.len, .labelled = labelled};
    if (len == 0)
        return 0;
    if (labelled != (n > 0 && cuts[n - 1].labelled) &&
        buf_add(&o->cuts, &cut, sizeof(cut), o->err) < 0)
        return -1;
    return buf_add(&o->text, text, len, o->err);
}

static int put_token(struct output *o, int32_t id, bool labelled)
{
    const int32_t label = labelled ? id : -1;
    if (flush(o) < 0)
        return -1;
    o->is_behind = true;
    if (buf_add(o->ids, &id, sizeof(id), o->err) < 0)
        return -1;
    return buf_add(o->labels, &label, sizeof(label), o->err);
}

/* The token whose name the words begin with. *ret_len 0: they begin with
 * none. */
static int32_t token_of(const struct chat_render *r, const char *p,
                        size_t *ret_len)
{
    *ret_len = *p == '\1' || *p == '\2' ? 1 : 0;
    if (*ret_len == 1)
        return *p == '\1' ? r->bos : r->eos;
    for (int i = 0; i < CHAT_TOKENS && r->table->tokens[i] != NULL; i++) {
        const size_t len = strlen(r->table->tokens[i]);
        if (r->token[i] < 0 || strncmp(p, r->table->tokens[i], len) != 0)
            continue;
        *ret_len = len;
        return r->token[i];
    }
    return -1;
}

/* in  labelled  the words count, up to the token that ends a turn; the token
 *               that begins a text never does */
static int put_words(struct output *o, const char *words, bool labelled)
{
    for (const char *p = words; *p != '\0';) {
        size_t len;
        const int32_t id = token_of(o->r, p, &len);
        if (len == 0) {
            if (put_text(o, p, 1, labelled) < 0)
                return -1;
            p++;
            continue;
        }
        if (id >= 0 && put_token(o, id, labelled && *p != '\1') < 0)
            return -1;
        labelled = labelled && id != o->r->end;
        p += len;
    }
    return 0;
}

/* ---- messages ------------------------------------------------------------ */

/* A text between the words of its role. */
static int put_turn(struct output *o, const struct chat_words *w,
                    const char *text, size_t len, bool is_answer, bool labelled)
{
    if (o->r->table->strips)
        text = chat_render_strip(text, len, &len);
    if (put_words(o, w->before, labelled && !is_answer) < 0 ||
        put_text(o, text, len, labelled) < 0)
        return -1;
    return put_words(o, w->after, labelled);
}

/* in  system  the text of the system that goes into it; NULL: none */
static int put_user(struct output *o, const struct message *m,
                    const char *system)
{
    const struct chat_table *t = o->r->table;
    if (system == NULL)
        return put_turn(o, &t->user, m->text, strlen(m->text), false,
                        m->labelled);
    const char *const parts[] = {t->system.before, system, t->system.after,
                                 m->text};
    buf_reset(&o->work);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (buf_addstr(&o->work, parts[i], o->err) < 0)
            return -1;
    return put_turn(o, &t->user, buf_str(&o->work), o->work.len, false,
                    m->labelled);
}

/* An answer of a conversation that goes on: without its thought. */
static const char *answer_of(const struct chat_table *t, const char *text)
{
    static const char end[] = "</think>";
    const char *p;
    while (t->thinks && (p = strstr(text, end)) != NULL) {
        text = p + sizeof(end) - 1;
        text += strstr(text, end) == NULL ? strspn(text, "\n") : 0;
    }
    return text;
}

static int put_answer(struct output *o, const struct message *m, bool is_last)
{
    const struct chat_table *t = o->r->table;
    struct chat_words w = t->assistant;
    const char *text = o->asks ? answer_of(t, m->text) : m->text;
    if (t->thinks && is_last) {
        if (put_words(o, w.before, false) < 0)
            return -1;
        w.before = "<think>\n\n</think>\n\n";
        text += strspn(text, "\n");
    }
    return put_turn(o, &w, text, strlen(text), true, m->labelled);
}

static int check(const struct output *o, const struct message *m, int32_t i)
{
    const struct chat_render *r = o->r;
    struct error *err = o->err;
    const char *name = r->table->name;
    if (m->role == ROLE_IPYTHON)
        return error_set(err, ERR_INVAL,
                         "message %d is a tool's, which the format %s does not "
                         "write here",
                         i + 1, name);
    if (m->role == ROLE_SYSTEM && r->table->where == SYSTEM_REFUSED)
        return error_set(err, ERR_INVAL,
                         "message %d is of the system, which the format %s "
                         "does not have: leave it out",
                         i + 1, name);
    if (r->table->thinks && m->role == ROLE_ASSISTANT && !o->asks &&
        strstr(m->text, "</think>") != NULL)
        return error_set(err, ERR_INVAL,
                         "message %d has a thought (</think>), which is not "
                         "written here: leave it out",
                         i + 1);
    if (r->table->thinks && m->role == ROLE_USER &&
        strncmp(m->text, "<tool_response>", 15) == 0)
        return error_set(err, ERR_INVAL,
                         "message %d is a tool's answer (<tool_response>), "
                         "which is not written here",
                         i + 1);
    return 0;
}

/* in  system  the text of the system, for the message that has it; NULL: none
 */
static int put_message(struct output *o, const struct messages *m, int32_t i,
                       bool is_last, const char **system)
{
    const struct chat_table *t = o->r->table;
    const struct message *one = &m->list[i];
    const char *in_it = NULL;
    if (check(o, one, i) < 0)
        return -1;
    if (one->role == ROLE_ASSISTANT)
        return put_answer(o, one, is_last);
    if (one->role == ROLE_SYSTEM && t->where == SYSTEM_TURN)
        return put_turn(o, &t->system, one->text, strlen(one->text), false,
                        one->labelled);
    if (one->role == ROLE_SYSTEM) {
        *system = one->text;
        return 0;
    }
    if (t->where == SYSTEM_FIRST || (t->where == SYSTEM_LAST && is_last)) {
        in_it = *system;
        *system = NULL;
    }
    return put_user(o, one, in_it);
}

/* The first n messages. */
static int put_all(struct output *o, const struct messages *m, int32_t n)
{
    const struct chat_table *t = o->r->table;
    const char *system = NULL;
    if (put_words(o, t->begin, false) < 0)
        return -1;
    if (t->no_system != NULL && n > 0 && m->list[0].role != ROLE_SYSTEM &&
        put_turn(o, &t->system, t->no_system, strlen(t->no_system), false,
                 false) < 0)
        return -1;
    for (int32_t i = 0; i < n; i++)
        if (put_message(o, m, i, i + 1 == n, &system) < 0)
            return -1;
    if (o->asks && put_words(o, t->asks, false) < 0)
        return -1;
    return flush(o);
}

static void output_clear(struct output *o)
{
    buf_clear(&o->text);
    buf_clear(&o->cuts);
    buf_clear(&o->work);
    buf_clear(&o->head);
}

/* in  asks  an answer is to follow the first n messages */
static int render(const struct chat_render *r, const struct messages *m,
                  int32_t n, bool asks, struct buf *ids, struct buf *labels,
                  struct error *err)
{
    struct output o = {
        .r = r, .ids = ids, .labels = labels, .asks = asks, .err = err};
    int rc = put_all(&o, m, n);
    output_clear(&o);
    return rc;
}

/* Cuts what is behind max_seq_len. */
static int32_t cut(const struct chat_render *r, size_t first, struct buf *ids,
                   struct buf *labels)
{
    return token_cut(ids, labels, first, (size_t)r->max_seq_len);
}

int chat_render(const struct chat_render *r, const struct messages *m,
                struct buf *ids, struct buf *labels, int32_t *ret_lost,
                struct error *err)
{
    const size_t first = ints_of(ids);
    if (render(r, m, m->n, false, ids, labels, err) < 0)
        return -1;
    *ret_lost = cut(r, first, ids, labels);
    return 0;
}

int chat_render_ask(const struct chat_render *r, const struct messages *m,
                    struct buf *ids, struct error *err)
{
    struct buf labels = BUF_INIT;
    if (m->n == 0 || m->list[m->n - 1].role != ROLE_USER)
        return error_set(err, ERR_INVAL,
                         "the last message is to be the user's");
    int rc = render(r, m, m->n, true, ids, &labels, err);
    buf_clear(&labels);
    return rc;
}

int chat_render_completion(const struct chat_render *r,
                           const struct messages *m, bool on_input,
                           struct buf *ids, struct buf *labels,
                           int32_t *ret_lost, struct error *err)
{
    const size_t first = ints_of(ids);
    struct buf prompt = BUF_INIT, unused = BUF_INIT;
    int rc = render(r, m, m->n_prompt, true, &prompt, &unused, err);
    if (rc == 0)
        rc = render(r, m, m->n, false, ids, labels, err);
    if (rc == 0) {
        token_cut_label(ids, labels, first, on_input ? 0 : ints_of(&prompt));
        *ret_lost = cut(r, first, ids, labels);
    }
    buf_clear(&prompt);
    buf_clear(&unused);
    return rc;
}

/* ---- the tokenizer ------------------------------------------------------- */

int chat_render_init(struct chat_render *r, const struct chat_table *table,
                     const struct tokenizer *t, int32_t max_seq_len,
                     struct error *err)
{
    const struct tokenizer_ids *ids = tokenizer_ids(t);
    *r = (struct chat_render){.table = table,
                              .tokenizer = t,
                              .bos = ids->bos,
                              .eos = ids->eos,
                              .max_seq_len = max_seq_len};
    for (int i = 0; i < CHAT_TOKENS && table->tokens[i] != NULL; i++) {
        r->token[i] = tokenizer_special(t, table->tokens[i]);
        if (i < table->needs && r->token[i] < 0)
            return error_set(err, ERR_INVAL,
                             "the tokenizer has no special token %s, which the "
                             "format %s needs: use a tokenizer.json that has "
                             "it, or another train.tokenizer.prompt_template",
                             table->tokens[i], table->name);
    }
    for (int i = 0; i < CHAT_TOKENS && table->tokens[i] != NULL; i++)
        if (r->token[i] >= 0 && !tokenizer_knows_behind(t))
            return error_set(err, ERR_INVAL,
                             "a sentencepiece model does not say how a text "
                             "behind %s begins, which the format %s needs: "
                             "put the model's tokenizer.json beside it, or "
                             "take another train.tokenizer.prompt_template",
                             table->tokens[i], table->name);
    r->end = table->end != NULL ? tokenizer_special(t, table->end) : ids->eos;
    if (r->end < 0)
        return error_set(err, ERR_INVAL,
                         "the tokenizer has no end of text, which ends the "
                         "answers of the format %s",
                         table->name);
    return 0;
}
