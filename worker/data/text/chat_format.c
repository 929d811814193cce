/* chat_format.c - see chat_format.h. */
#include "worker/data/text/chat_format.h"

#include <string.h>

#include "worker/data/chat/chat_template.h"
#include "worker/data/rows/token_cut.h"

/* ---- words around a text ------------------------------------------------- */

enum { PARTS = 6 };

struct parts {
    const char *text[PARTS];
    int32_t n;
};

struct words {
    const char *before, *after; /* "": none */
};

/* One for each role: system, user, assistant and ipython. */
static const struct words words[][4] = {
    [PROMPT_NONE] = {{"", ""}, {"", ""}, {"", ""}, {"", ""}},
    [PROMPT_LLAMA2_CHAT] = {{"<<SYS>>\n", "\n<</SYS>>\n\n"},
                            {"[INST] ", " [/INST] "},
                            {"", ""},
                            {"", ""}},
    [PROMPT_CHATML] = {{"<|im_start|>system\n", "<|im_end|>\n"},
                       {"<|im_start|>user\n", "<|im_end|>\n"},
                       {"<|im_start|>assistant\n", "<|im_end|>\n"},
                       {"", ""}},
    [PROMPT_GRAMMAR] = {{"", ""},
                        {"Correct this to standard English: ",
                         "\n---\nCorrected: "},
                        {"", ""},
                        {"", ""}},
    [PROMPT_SUMMARIZE] = {{"", ""},
                          {"Summarize this dialogue:\n", "\n---\nSummary:\n"},
                          {"", ""},
                          {"", ""}},
    [PROMPT_QUESTION_ANSWER] = {{"", ""},
                                {"Question: ", "\n\nAnswer: "},
                                {"", ""},
                                {"", ""}},
};

static void put(struct parts *p, const char *text)
{
    if (text[0] != '\0')
        p->text[p->n++] = text;
}

/* in  system  the text of the system that goes into a message of the user;
 *             NULL: none */
static struct parts parts_of(const struct chat_format *f,
                             const struct message *m, const char *system,
                             bool is_last)
{
    const struct words *w = &words[f->prompt][m->role];
    const struct words *sys = &words[f->prompt][ROLE_SYSTEM];
    struct parts p = {.n = 0};
    put(&p, w->before);
    if (system != NULL && m->role == ROLE_USER) {
        put(&p, sys->before);
        p.text[p.n++] = system;
        put(&p, sys->after);
    }
    p.text[p.n++] = m->text;
    /* The model is to go on behind an empty answer at the end. */
    if (f->prompt != PROMPT_CHATML || m->role != ROLE_ASSISTANT || !is_last ||
        m->text[0] != '\0')
        put(&p, w->after);
    return p;
}

/* ---- ids ----------------------------------------------------------------- */

struct output {
    const struct chat_format *f;
    struct buf *ids, *labels;
    size_t first; /* ids that were there before */
    struct error *err;
};

static size_t ids_of(const struct output *o)
{
    return o->ids->len / sizeof(int32_t) - o->first;
}

static int put_id(const struct output *o, int32_t id)
{
    return buf_add(o->ids, &id, sizeof(id), o->err);
}

/* Ids that have no label yet get one. */
static int put_labels(const struct output *o, bool labelled)
{
    static const int32_t none = -1;
    while (o->labels->len < o->ids->len)
        if (buf_add(o->labels,
                    labelled ? o->ids->data + o->labels->len
                             : (const char *)&none,
                    sizeof(none), o->err) < 0)
            return -1;
    return 0;
}

static void set(struct buf *b, size_t i, int32_t v)
{
    memcpy(b->data + i * sizeof(v), &v, sizeof(v));
}

/* Cuts what is too long; the last id becomes eos, unless it is. */
static int32_t end_in_eos(const struct output *o, bool labelled)
{
    const size_t most = (size_t)o->f->max_seq_len;
    if (most == 0 || ids_of(o) == 0)
        return -1;
    const int32_t all = token_cut_labelled(o->labels, o->first);
    const bool is_cut = token_cut(o->ids, o->labels, o->first, most) >= 0;
    const size_t last = o->first + ids_of(o) - 1;
    set(o->ids, last, o->f->eos);
    set(o->labels, last, labelled ? o->f->eos : -1);
    const int32_t left = token_cut_labelled(o->labels, o->first);
    return !is_cut ? -1 : all > left ? all - left : 0;
}

/* Appends a text, but for what is neither kept nor counted. */
static int put_encoded(const struct output *o, const char *text, size_t len,
                       uint32_t flags)
{
    const size_t room = (size_t)o->f->max_seq_len, n = ids_of(o);
    const size_t most = room + TOKEN_CUT_COUNTED;
    if (room > 0 && n >= most)
        return 0;
    return tokenizer_encode_some(o->f->tokenizer, text, len, flags,
                                 room > 0 ? most - n : 0, o->ids, o->err);
}

static bool is_full(const struct output *o)
{
    return o->f->max_seq_len > 0 && ids_of(o) >= (size_t)o->f->max_seq_len;
}

/* ---- Llama 3 ------------------------------------------------------------- */

static int put_text3(const struct output *o, const char *text)
{
    size_t len;
    text = chat_render_strip(text, strlen(text), &len);
    return put_encoded(o, text, len, 0);
}

static int put_message3(const struct output *o, const struct message *m,
                        const struct parts *p)
{
    const struct chat_format *f = o->f;
    const char *role = message_role_name(m->role);
    if (put_id(o, f->start_header) < 0 ||
        tokenizer_encode(f->tokenizer, role, strlen(role), 0, o->ids, o->err) <
            0 ||
        put_id(o, f->end_header) < 0 ||
        tokenizer_encode(f->tokenizer, "\n\n", 2, 0, o->ids, o->err) < 0)
        return -1;
    for (int32_t i = 0; i < p->n; i++)
        if (put_text3(o, p->text[i]) < 0)
            return -1;
    if (put_id(o, f->eot) < 0)
        return -1;
    return put_labels(o, m->labelled);
}

/* ---- Llama 2 ------------------------------------------------------------- */

struct turn {
    bool begins;          /* the next message does */
    bool ends_with_space; /* the last text did */
};

static int put_message2(const struct output *o, const struct message *m,
                        const struct parts *p, struct turn *turn)
{
    const struct chat_format *f = o->f;
    const uint32_t flags =
        turn->begins || turn->ends_with_space ? 0 : TOKENIZER_GOES_ON;
    if (turn->begins && f->bos >= 0 && put_id(o, f->bos) < 0)
        return -1;
    for (int32_t i = 0; i < p->n; i++) {
        size_t len = strlen(p->text[i]);
        turn->ends_with_space = len > 0 && p->text[i][len - 1] == ' ';
        while (len > 0 && p->text[i][len - 1] == ' ')
            len--;
        if (put_encoded(o, p->text[i], len, flags) < 0)
            return -1;
    }
    turn->begins = m->role == ROLE_ASSISTANT;
    if (turn->begins && put_id(o, f->eos) < 0)
        return -1;
    return put_labels(o, m->labelled);
}

/* ---- all ----------------------------------------------------------------- */

/* The parts as one; *whole has its text. */
static int join(struct parts *p, struct buf *whole, struct error *err)
{
    buf_reset(whole);
    for (int32_t i = 0; i < p->n; i++)
        if (buf_addstr(whole, p->text[i], err) < 0)
            return -1;
    *p = (struct parts){.text = {buf_str(whole)}, .n = 1};
    return 0;
}

static int put_message(const struct output *o, const struct message *m,
                       struct parts *p, struct turn *turn, struct buf *whole)
{
    if (o->f->is_whole && join(p, whole, o->err) < 0)
        return -1;
    return o->f->start_header >= 0 ? put_message3(o, m, p)
                                   : put_message2(o, m, p, turn);
}

int32_t chat_format_turn_end(const struct tokenizer *t)
{
    return tokenizer_special(t, "<|start_header_id|>") >= 0 &&
                   tokenizer_special(t, "<|end_header_id|>") >= 0
               ? tokenizer_special(t, "<|eot_id|>")
               : -1;
}

int32_t chat_format_answer_end(enum spec_prompt prompt, const char *dir,
                               const struct tokenizer *t)
{
    const struct chat_table *table;
    if (prompt == PROMPT_AUTO && chat_template_find(dir, &prompt, NULL) < 0)
        prompt = PROMPT_NONE;
    table = chat_table_of(prompt);
    if (table == NULL)
        return chat_format_turn_end(t);
    return table->end != NULL ? tokenizer_special(t, table->end)
                              : tokenizer_ids(t)->eos;
}

int chat_format_init(struct chat_format *f, const struct tokenizer *t,
                     enum spec_prompt prompt, int32_t eos, int32_t max_seq_len,
                     struct error *err)
{
    const struct tokenizer_ids *ids = tokenizer_ids(t);
    const struct chat_table *table = chat_table_of(prompt);
    const int32_t end = tokenizer_special(t, "<|end_of_text|>");
    *f = (struct chat_format){
        .tokenizer = t,
        .prompt = prompt,
        .bos = ids->bos,
        .eos = eos >= 0 ? eos : ids->eos,
        .end = eos >= 0 ? eos : ids->eos,
        .start_header = tokenizer_special(t, "<|start_header_id|>"),
        .end_header = tokenizer_special(t, "<|end_header_id|>"),
        .eot = chat_format_turn_end(t),
        .max_seq_len = max_seq_len};
    if (f->eot < 0)
        f->start_header = -1;
    else if (end >= 0)
        f->eos = end;
    if (f->eos < 0)
        return error_set(err, ERR_INVAL,
                         "the tokenizer has no end of text, which ends the "
                         "answers of a template");
    return table != NULL
               ? chat_render_init(&f->model, table, t, max_seq_len, err)
               : 0;
}

int chat_format_encode(const struct chat_format *f, const struct messages *m,
                       struct buf *ids, struct buf *labels, int32_t *ret_lost,
                       struct error *err)
{
    const struct output o = {.f = f,
                             .ids = ids,
                             .labels = labels,
                             .first = ids->len / sizeof(int32_t),
                             .err = err};
    const bool llama3 = f->start_header >= 0;
    const char *system = NULL;
    struct turn turn = {.begins = true};
    struct buf whole = BUF_INIT;
    bool labelled = false, full = false;
    if (f->model.table != NULL)
        return chat_render(&f->model, m, ids, labels, ret_lost, err);
    if (llama3 && f->bos >= 0 &&
        (put_id(&o, f->bos) < 0 || put_labels(&o, false) < 0))
        return -1;
    for (int32_t i = 0; i < m->n; i++) {
        const struct message *one = &m->list[i];
        if (one->role == ROLE_SYSTEM && f->prompt == PROMPT_LLAMA2_CHAT) {
            system = one->text;
            continue;
        }
        struct parts p = parts_of(f, one, system, i + 1 == m->n);
        /* What fills the row is the last that is kept of it. */
        labelled = full ? labelled : one->labelled && !llama3;
        int rc = put_message(&o, one, &p, &turn, &whole);
        if (rc < 0) {
            buf_clear(&whole);
            return -1;
        }
        full = is_full(&o);
    }
    buf_clear(&whole);
    if (llama3 && (put_id(&o, f->eos) < 0 || put_labels(&o, false) < 0))
        return -1;
    *ret_lost = end_in_eos(&o, labelled);
    return 0;
}

/* Of an empty answer behind the messages, all but its end. */
int chat_format_ask(const struct chat_format *f, struct messages *m,
                    struct buf *ids, struct error *err)
{
    const size_t ends = f->start_header >= 0 ? 2 : 1; /* eot, eos */
    struct chat_format whole = *f;
    struct buf labels = BUF_INIT;
    int32_t lost;
    if (f->model.table != NULL)
        return chat_render_ask(&f->model, m, ids, err);
    if (m->n == 0 || m->n == MESSAGES_MAX ||
        m->list[m->n - 1].role != ROLE_USER)
        return error_set(err, ERR_INVAL,
                         "%d messages: expected 1..%d, the last the user's",
                         m->n, MESSAGES_MAX - 1);
    whole.max_seq_len = 0;
    m->list[m->n++] = (struct message){.role = ROLE_ASSISTANT, .text = ""};
    int rc = chat_format_encode(&whole, m, ids, &labels, &lost, err);
    m->n--;
    if (rc == 0) {
        ids->len -= ends * sizeof(int32_t);
        ids->data[ids->len] = '\0';
    }
    buf_clear(&labels);
    return rc;
}

int chat_format_text(const struct chat_format *f, const char *text,
                     struct buf *ids, struct buf *labels, int32_t *ret_lost,
                     struct error *err)
{
    const struct output o = {.f = f,
                             .ids = ids,
                             .labels = labels,
                             .first = ids->len / sizeof(int32_t),
                             .err = err};
    if (text[0] == '\0')
        return error_set(err, ERR_INVAL, "the text is empty");
    if ((f->bos >= 0 && put_id(&o, f->bos) < 0) ||
        put_encoded(&o, text, strlen(text), 0) < 0 || put_id(&o, f->eos) < 0 ||
        put_labels(&o, true) < 0)
        return -1;
    *ret_lost = token_cut(ids, labels, o.first,
                          f->max_seq_len > 0 ? (size_t)f->max_seq_len - 1 : 0);
    return 0;
}
