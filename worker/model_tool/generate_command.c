/* generate_command.c - mgpu-model generate DIR [--adapter OUT] --prompt TEXT.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/tools/common/client.h"
#include "worker/model_tool/commands.h"
#include "worker/model_tool/model_load.h"
#include "worker/model_tool/prompt.h"
#include "worker/model_tool/token_rates.h"
#include "worker/model_tool/token_text.h"

struct answer {
    const struct model_args *args;
    struct model_load load;
    struct prompt prompt;
    struct token_text text;
    struct token_rates rates;
    bool is_ended; /* by a token, not by its length */
    bool shows;    /* standard output is a terminal */
};

static int open_model(struct answer *a, struct error *err)
{
    const int32_t most = a->load.conf.shape.max_positions;
    if (a->prompt.n >= most)
        return error_set(err, ERR_INVAL,
                         "the prompt has %d tokens, the model %d positions",
                         a->prompt.n, most);
    return model_load_open(&a->load, a->args,
                           a->prompt.n + (int64_t)a->args->max_new_tokens, err);
}

/* ---- the answer ---------------------------------------------------------- */

static int each(void *arg, int32_t id, struct error *err)
{
    struct answer *a = arg;
    const char *text;
    size_t n;
    token_rates_add(&a->rates);
    if (token_text_add(&a->text, id, &text, &n, err) < 0)
        return -1;
    if (a->args->common.json || n == 0)
        return 0;
    token_text_print(stdout, a->shows, text, n);
    (void)fflush(stdout);
    return 0;
}

static int generate(struct answer *a, struct error *err)
{
    model_load_ends(&a->load, a->prompt.format, a->prompt.tokenizer);
    a->text = token_text_of(a->prompt.tokenizer);
    a->rates = token_rates_of(&clock_real);
    struct llama_choice c = model_load_choice(&a->load, a->args);
    c.each = each;
    c.arg = a;
    const int32_t most = a->load.conf.row_tokens;
    int32_t *ids = calloc((size_t)most, sizeof(*ids)), n = 0;
    if (ids == NULL)
        return error_set(err, ERR_NOMEM, "tokens");
    memcpy(ids, a->prompt.ids.data, (size_t)a->prompt.n * sizeof(*ids));
    token_rates_begin(&a->rates, a->prompt.n, 0);
    int rc = llama_generate(a->load.model, &c, ids, a->prompt.n, most, &n, err);
    a->is_ended = n < most;
    token_rates_end(&a->rates, a->is_ended);
    free(ids);
    return rc;
}

static int print_json(const struct answer *a, struct error *err)
{
    const int32_t *ids = (const void *)a->text.ids.data;
    json_t *list = json_array();
    for (size_t i = 0; i < a->text.ids.len / sizeof(*ids); i++)
        (void)json_array_append_new(list, json_integer(ids[i]));
    /* JSON has no string for bytes that are not UTF-8. */
    json_t *text = json_string(buf_str(&a->text.text));
    json_t *o = json_pack(
        "{s:i, s:o, s:o, s:s, s:f, s:f}", "prompt_tokens", (int)a->prompt.n,
        "ids", list, "text", text != NULL ? text : json_null(), "end",
        a->is_ended ? "token" : "length", "prompt_tokens_s",
        token_rates_prompt(&a->rates), "tokens_s", token_rates_made(&a->rates));
    if (o != NULL && a->prompt.expected.len > 0)
        (void)json_object_set_new(o, "expected",
                                  json_string(buf_str(&a->prompt.expected)));
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

static int print_rest(const struct answer *a, struct error *err)
{
    if (a->args->common.json)
        return print_json(a, err);
    struct buf rates = BUF_INIT;
    const char *rest = token_text_rest(&a->text);
    token_text_print(stdout, a->shows, rest, strlen(rest));
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    if (a->args->common.quiet)
        return 0;
    if (a->prompt.expected.len > 0)
        (void)fprintf(stderr, "expected: %s\n", buf_str(&a->prompt.expected));
    int rc = token_rates_text(&a->rates, &rates, err);
    if (rc == 0)
        (void)fprintf(stderr, "%s\n", buf_str(&rates));
    buf_clear(&rates);
    return rc;
}

int generate_command(const struct model_args *args, const char *operand,
                     struct error *err)
{
    struct answer a = {.args = args, .shows = isatty(STDOUT_FILENO) == 1};

    if (args->chat)
        return chat_command(args, operand, err);
    if (args->system != NULL || args->context > 0)
        return error_set(err, ERR_USAGE, "--%s needs --chat",
                         args->system != NULL ? "system" : "context");
    if ((args->prompt == NULL) == (args->row == 0) ||
        (args->row > 0) != (args->data != NULL))
        return error_set(err, ERR_USAGE,
                         "generate needs either --prompt TEXT, "
                         "or --row N and --data FILE, or --chat");
    int rc = model_load_read(&a.load, args, operand, err);
    if (rc == 0)
        rc = args->prompt != NULL
                 ? prompt_of_text(operand, args->prompt, &a.prompt, err)
                 : prompt_of_row(operand, args->data, args->row,
                                 a.load.conf.shape.eos_id, &a.prompt, err);
    rc = rc < 0 ? rc : open_model(&a, err);
    rc = rc < 0 ? rc : generate(&a, err);
    rc = rc < 0 ? rc : print_rest(&a, err);
    model_load_clear(&a.load);
    prompt_clear(&a.prompt);
    token_text_clear(&a.text);
    return rc;
}
