/* chat_command.c - mgpu-model generate DIR --chat: a line of standard input is
 * what the user says, and the model answers.
 *
 * Keys and values of a conversation stay: of the next prompt only the tokens
 * from the first other one on are computed, if they are at most half of it.
 * Ctrl-C ends an answer; the handler is for one signal, so that the next one
 * ends the program, unless a line was read in between. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"
#include "worker/model_tool/commands.h"
#include "worker/model_tool/conversation.h"
#include "worker/model_tool/model_load.h"
#include "worker/model_tool/token_rates.h"
#include "worker/model_tool/token_text.h"

/* Tokens of a conversation, where the model has so many positions: what the
 * activations of a prompt take grows with it. */
enum { CONTEXT = 4096 };

struct chat {
    const struct model_args *args;
    struct model_load load;
    struct conversation talk;
    struct token_rates rates;
    struct token_text text; /* of the answer at hand */
    struct buf prompt;      /* its ids */
    int32_t *ids;           /* [row_tokens], owned: what the model has seen */
    int32_t kept;           /* the first of them have keys and values */
    int32_t answers;
    bool is_terminal; /* a person types */
    bool shows;       /* standard output is a terminal */
};

/* ---- Ctrl-C -------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

/* in  flags  SA_RESTART: what is printed is not cut */
static void catch_interrupt(int flags)
{
    struct sigaction sa = {.sa_handler = on_interrupt,
                           .sa_flags = (int)SA_RESETHAND | flags};
    interrupted = 0;
    (void)sigaction(SIGINT, &sa, NULL);
}

/* ---- an answer ----------------------------------------------------------- */

static int each(void *arg, int32_t id, struct error *err)
{
    struct chat *c = arg;
    const char *text;
    size_t n;
    token_rates_add(&c->rates);
    if (token_text_add(&c->text, id, &text, &n, err) < 0)
        return -1;
    if (!c->args->common.json && n > 0) {
        token_text_print(stdout, c->shows, text, n);
        (void)fflush(stdout);
    }
    return interrupted ? error_set(err, ERR_STATE, "interrupted") : 0;
}

/* How many of the prompt's first ids have keys and values; one at least is
 * computed. Where they are fewer than half, all are computed: a prompt from its
 * first token on is computed as one, the rest of one token by token. */
static int32_t same_ids(const struct chat *c, const int32_t *ids, int32_t n)
{
    int32_t same = 0;
    while (same < n - 1 && same < c->kept && ids[same] == c->ids[same])
        same++;
    return c->args->no_cache || same < n - same ? 0 : same;
}

static int print_json(const struct chat *c, int32_t prompt, int32_t kept,
                      const char *end, struct error *err)
{
    const int32_t *ids = (const void *)c->text.ids.data;
    json_t *list = json_array();
    for (size_t i = 0; i < c->text.ids.len / sizeof(*ids); i++)
        (void)json_array_append_new(list, json_integer(ids[i]));
    json_t *text = json_string(buf_str(&c->text.text));
    json_t *o =
        json_pack("{s:i, s:i, s:o, s:o, s:s}", "prompt_tokens", (int)prompt,
                  "kept_tokens", (int)kept, "ids", list, "text",
                  text != NULL ? text : json_null(), "end", end);
    int rc = client_print(o, err);
    json_decref(o);
    (void)fflush(stdout);
    return rc;
}

static void note(const struct chat *c, const char *words, int32_t n)
{
    if (!c->args->common.quiet)
        (void)fprintf(stderr, "mgpu-model: %s (%d tokens)\n", words, n);
}

static int print_answer(struct chat *c, int32_t prompt, int32_t kept,
                        const char *end, struct error *err)
{
    const int32_t made = (int32_t)(c->text.ids.len / sizeof(int32_t));
    if (c->args->common.json)
        return print_json(c, prompt, kept, end, err);
    const char *rest = token_text_rest(&c->text);
    token_text_print(stdout, c->shows, rest, strlen(rest));
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    if (strcmp(end, "length") == 0)
        note(c,
             made < c->args->max_new_tokens
                 ? "the context is full: the answer is cut"
                 : "the answer is cut: see --max-new-tokens",
             made < c->args->max_new_tokens ? prompt + made : made);
    return 0;
}

/* The answer to a prompt of n ids, printed and added. */
static int answer(struct chat *c, int32_t n, struct error *err)
{
    const int32_t room = c->load.conf.row_tokens;
    const int64_t wanted = n + (int64_t)c->args->max_new_tokens;
    const int32_t most = wanted < room ? (int32_t)wanted : room;
    const int32_t *prompt = (const void *)c->prompt.data;
    const int32_t same = same_ids(c, prompt, n);
    struct llama_choice choice = model_load_choice(&c->load, c->args);
    int32_t all = n;
    token_text_clear(&c->text);
    c->text = token_text_of(c->talk.tokenizer);
    memcpy(c->ids, prompt, (size_t)n * sizeof(*prompt));
    choice.seed += (uint32_t)c->answers++;
    choice.each = each;
    choice.arg = c;
    c->kept = same;
    choice.kept = &c->kept;
    catch_interrupt(SA_RESTART);
    token_rates_begin(&c->rates, n, same);
    int rc = llama_generate(c->load.model, &choice, c->ids, n, most, &all, err);
    const bool is_cut = rc < 0 && interrupted && err->code == ERR_STATE;
    token_rates_end(&c->rates, rc == 0 && all < most);
    if (rc < 0 && !is_cut)
        return -1;
    rc = print_answer(c, n, same,
                      is_cut       ? "interrupt"
                      : all < most ? "token"
                                   : "length",
                      err);
    return rc < 0 ? rc
                  : conversation_add(&c->talk, ROLE_ASSISTANT,
                                     buf_str(&c->text.text), c->text.text.len,
                                     err);
}

/* The user says a line. Where it is refused, the conversation is as before. */
static int say(struct chat *c, const char *line, size_t len, struct error *err)
{
    /* An answer has room for what it may have, but never for most of it. */
    const int32_t most = c->load.conf.row_tokens;
    const int32_t wants =
        c->args->max_new_tokens < most / 4 ? c->args->max_new_tokens : most / 4;
    int32_t dropped;
    if (conversation_add(&c->talk, ROLE_USER, line, len, err) < 0)
        return -1;
    if (conversation_ask(&c->talk, most - (wants > 0 ? wants : 1), &c->prompt,
                         &dropped, err) < 0) {
        conversation_drop_last(&c->talk);
        return -1;
    }
    if (dropped > 0 && !c->args->common.quiet)
        (void)fprintf(stderr,
                      "mgpu-model: the context of %d tokens is full: the "
                      "oldest %d messages are forgotten\n",
                      most, dropped);
    int rc = answer(c, (int32_t)(c->prompt.len / sizeof(int32_t)), err);
    if (rc < 0)
        conversation_drop_last(&c->talk);
    return rc;
}

/* ---- lines --------------------------------------------------------------- */

/* 1: a line, without its end; 0: there are no more. */
static int read_line(struct chat *c, char **line, size_t *cap, size_t *ret_len,
                     struct error *err)
{
    for (;;) {
        if (c->is_terminal)
            (void)fputs("> ", stderr);
        if (!interrupted)
            catch_interrupt(0);
        errno = 0;
        const ssize_t n = getline(line, cap, stdin);
        if (n >= 0) {
            interrupted = 0; /* of a line that came with the signal */
            *ret_len = (size_t)n - (n > 0 && (*line)[n - 1] == '\n');
            (*line)[*ret_len] = '\0';
            return 1;
        }
        if (errno == EINTR) {
            clearerr(stdin);
            (void)fputs("\nCtrl-C again ends the program, Ctrl-D too\n",
                        stderr);
            continue;
        }
        if (ferror(stdin))
            return error_set(err, ERR_IO, "standard input: %s",
                             strerror(errno));
        if (c->is_terminal)
            (void)fputc('\n', stderr);
        return 0;
    }
}

/* A person may go on after a message that is refused. */
static int take_line(struct chat *c, const char *line, size_t len,
                     struct error *err)
{
    char safe[2 * sizeof(err->msg)];
    if (line[strspn(line, " \t\r")] == '\0')
        return 0;
    if (strcmp(line, "/clear") == 0) {
        conversation_restart(&c->talk);
        return 0;
    }
    int rc = strlen(line) == len
                 ? say(c, line, len, err)
                 : error_set(err, ERR_INVAL, "a line with a NUL");
    if (rc < 0 && c->is_terminal && err->code == ERR_INVAL) {
        (void)fprintf(stderr, "mgpu-model: %s\n",
                      render_escape(err->msg, safe, sizeof(safe)));
        return 0;
    }
    return rc;
}

static int talk(struct chat *c, struct error *err)
{
    char *line = NULL;
    size_t cap = 0, len = 0;
    int rc;
    while ((rc = read_line(c, &line, &cap, &len, err)) > 0 &&
           strcmp(line, "/exit") != 0) {
        rc = take_line(c, line, len, err);
        if (rc < 0)
            break;
    }
    free(line);
    return rc < 0 ? -1 : 0;
}

/* ---- the command --------------------------------------------------------- */

static int open_chat(struct chat *c, const char *dir, struct error *err)
{
    const struct llama_config *shape = &c->load.conf.shape;
    const int32_t context =
        c->args->context > 0 ? c->args->context : (int32_t)CONTEXT;
    if (model_load_read(&c->load, c->args, dir, err) < 0)
        return -1;
    if (c->args->context > shape->max_positions)
        return error_set(err, ERR_INVAL,
                         "--context: %d tokens, the model has %d positions",
                         context, shape->max_positions);
    if (conversation_open(&c->talk, dir, c->args->data, shape->eos_id,
                          c->args->system, err) < 0)
        return error_wrap(err, "--chat");
    const struct chat_table *t = chat_table_of(c->talk.prompt);
    if (c->talk.n_system > 0 && t != NULL && t->where == SYSTEM_DROPPED &&
        !c->args->common.quiet)
        (void)fprintf(stderr,
                      "warning: the format %s leaves out what the system "
                      "says\n",
                      t->name);
    model_load_ends(&c->load, c->talk.prompt, c->talk.tokenizer);
    if (model_load_open(&c->load, c->args, context, err) < 0)
        return -1;
    c->ids = calloc((size_t)c->load.conf.row_tokens, sizeof(*c->ids));
    return c->ids == NULL ? error_set(err, ERR_NOMEM, "tokens") : 0;
}

static int print_rates(const struct chat *c, struct error *err)
{
    struct buf text = BUF_INIT;
    if (c->args->common.quiet || c->answers == 0)
        return 0;
    int rc = token_rates_text(&c->rates, &text, err);
    if (rc == 0)
        (void)fprintf(stderr, "%s\n", buf_str(&text));
    buf_clear(&text);
    return rc;
}

int chat_command(const struct model_args *args, const char *operand,
                 struct error *err)
{
    struct chat c = {.args = args,
                     .rates = token_rates_of(&clock_real),
                     .is_terminal = isatty(STDIN_FILENO) == 1,
                     .shows = isatty(STDOUT_FILENO) == 1};
    if (args->prompt != NULL || args->row > 0)
        return error_set(err, ERR_USAGE,
                         "--chat reads what to answer from standard input, it "
                         "takes no --%s",
                         args->prompt != NULL ? "prompt" : "row");
    int rc = open_chat(&c, operand, err);
    rc = rc < 0 ? rc : talk(&c, err);
    rc = rc < 0 ? rc : print_rates(&c, err);
    model_load_clear(&c.load);
    conversation_clear(&c.talk);
    token_text_clear(&c.text);
    buf_clear(&c.prompt);
    free(c.ids);
    return rc;
}
