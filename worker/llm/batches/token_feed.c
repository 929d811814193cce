/* token_feed.c - see token_feed.h. */
#include "worker/llm/batches/token_feed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/text/text.h"
#include "worker/data/cache/token_cache.h"
#include "worker/data/chat/chat_template.h"
#include "worker/data/text/chat_format.h"
#include "worker/process/rank_cores.h"

static void say_skipped(const struct token_feed *f, const struct batch_env *env)
{
    const struct rows_skipped *out = &f->data.skipped;
    if (out->n > 0)
        batch_say(env, "%s: left out %d row%s: %s", f->text->path, out->n,
                  out->n > 1 ? "s" : "", out->why[0].msg);
    for (int32_t i = 1; i < out->n && i < ROWS_NAMED; i++)
        batch_say(env, "%s: also left out: %s", f->text->path, out->why[i].msg);
}

static void say_unread(const struct token_feed *f, const struct batch_env *env)
{
    char q[TEXT_QUOTE_CAP];
    for (int32_t i = 0; i < f->data.unread.n; i++) {
        const struct row_key *k = &f->data.unread.key[i];
        batch_say(env,
                  "%s:%lld: a message has the key '%s', which is not read: "
                  "neither its prompt nor its answer has it (%lld row%s)",
                  f->data.files.path[k->file], (long long)k->line,
                  text_quote(q, sizeof(q), k->name), (long long)k->rows,
                  k->rows == 1 ? "" : "s");
    }
}

/* The end of a row is mostly its answer. */
static void say_cut(const struct token_feed *f, const struct batch_env *env,
                    const struct token_conf *conf)
{
    if (f->data.cut > 0)
        batch_say(env,
                  "%s: %d of %d rows are longer than "
                  "train.tokenizer.max_seq_len %d and lose their ends: "
                  "%lld of %lld labelled tokens",
                  f->text->path, f->data.cut, f->data.n, conf->max_seq_len,
                  (long long)f->data.lost,
                  (long long)f->data.labelled + (long long)f->data.lost);
}

/* In which format messages become tokens; once, not for the evaluation. */
static void say_format(const struct token_feed *f, const struct batch_env *env,
                       const struct token_conf *conf)
{
    const struct job_spec *spec = env->spec;
    const char *dir = chat_template_dir(spec);
    const struct chat_table *table = chat_table_of(conf->prompt);
    const bool is_own = spec->train.tokenizer.prompt_template == PROMPT_AUTO;
    enum spec_prompt own = conf->prompt;
    /* Its texts have none. */
    const char *what = f->text->template == TEMPLATE_PROMPT_COMPLETION
                           ? "lists of messages"
                           : "messages";
    if (f->text != &spec->train.dataset || env->say == NULL ||
        f->text->template == TEMPLATE_TOKENS ||
        f->text->template == TEMPLATE_COMPLETION)
        return;
    if (conf->is_unknown) {
        batch_say(env,
                  "%s: the chat template of %s is not known: rows of messages "
                  "need train.tokenizer.prompt_template",
                  f->text->path, dir);
        return;
    }
    if (table != NULL)
        batch_say(env, "%s: %s have the format %s, %s", f->text->path, what,
                  table->name,
                  is_own ? "that of the model's chat template"
                         : "as train.tokenizer.prompt_template says");
    else
        batch_say(env, "%s: %s have the format of %s%s", f->text->path, what,
                  chat_format_turn_end(conf->tokenizer) >= 0 ? "Llama 3"
                                                             : "Llama 2",
                  conf->prompt == PROMPT_NONE
                      ? ""
                      : ", with the words of train.tokenizer.prompt_template");
    if (!is_own && dir != NULL && chat_template_is_in(dir) &&
        (chat_template_find(dir, &own, NULL) < 0 || own != conf->prompt))
        batch_say(env,
                  "%s has a chat template of its own, which is not used: "
                  "prompts for the trained model need the format above",
                  dir);
}

/* Another order than the job's, to say what it would leave empty. */
static int count_other(struct token_feed *f, const struct packing_conf *conf,
                       struct error *err)
{
    struct packing other = {.n = 0};
    struct packing_conf c = *conf;
    c.order = c.order == PACKING_BEST_FIT ? PACKING_IN_ORDER : PACKING_BEST_FIT;
    if (packing_of(&f->data, &c, &other, err) < 0)
        return -1;
    f->packs_other = other.n;
    packing_clear(&other);
    return 0;
}

static int pack(struct token_feed *f, const struct job_spec *spec,
                struct error *err)
{
    const int32_t max = spec->train.tokenizer.max_seq_len;
    const bool packed = f->text->packed && !f->pairs;
    const struct packing_conf conf = {.max_seq_len = packed ? max : 0,
                                      .order = f->text->packing,
                                      .split = f->text->split_across_pack,
                                      .pairs = f->pairs};
    if (packing_of(&f->data, &conf, &f->packs, err) < 0)
        return -1;
    f->longest = packed ? max : f->data.longest;
    for (int32_t i = 0; i < f->packs.n && f->pairs; i++) {
        const int32_t n = packing_tokens(&f->packs, i);
        f->longest = n > f->longest ? n : f->longest;
    }
    return packed ? count_other(f, &conf, err) : 0;
}

/* Threads of a rank when all ranks of the node tokenise. */
static int32_t threads_of(const struct comm *c)
{
    const int32_t n = (int32_t)rank_cores_share(c);
    return n > 1 ? n : 1;
}

static int open_rows(struct token_feed *f, const struct batch_env *env,
                     const struct token_conf *tokens, struct error *err)
{
    char *dir = token_cache_dir(&env->spec->env);
    const struct token_cache_conf conf = {
        .tokens = tokens,
        .tokenizer_path = token_cache_tokenizer(env->spec, f->text),
        .dir = dir,
        .min_bytes = TOKEN_CACHE_MIN_BYTES,
        .yields = env->comm->rank > 0,
        .threads_alone = threads_of(env->comm),
        .clock = env->clock,
        .say = env->say,
        .tokenised = env->tokenised,
        .arg = env->arg};
    int rc = token_cache_open(&conf, &f->data, err);
    if (env->tokenised != NULL)
        env->tokenised(env->arg, NAN);
    free(dir);
    return rc;
}

int token_feed_open(struct token_feed *f, const struct batch_env *env,
                    const struct tokenizer *tokenizer, int32_t eos,
                    struct error *err)
{
    const struct job_spec *spec = env->spec;
    struct token_conf conf;
    if (token_conf_of(spec, f->text, tokenizer, eos, &conf, err) < 0)
        return -1;
    conf.cpus = &env->comm->local_cpus;
    f->pairs = conf.pairs;
    if (open_rows(f, env, &conf, err) < 0 || pack(f, spec, err) < 0)
        return -1;
    say_cut(f, env, &conf);
    say_unread(f, env);
    say_format(f, env, &conf);
    say_skipped(f, env);
    return 0;
}

void token_feed_close(struct token_feed *f)
{
    token_stage_clear(&f->stage);
    sampler_clear(&f->sampler);
    packing_clear(&f->packs);
    free(f->reference);
    token_data_clear(&f->data);
}

/* Percent of so many packs that are padding. */
static double padding(const struct token_feed *f, int32_t packs)
{
    const double room = (double)packs * f->longest;
    return 100 * (room - (double)f->data.tokens) / room;
}

void token_feed_describe(const struct token_feed *f, char *ret, size_t cap)
{
    const bool best = f->text->packing == PACKING_BEST_FIT;
    if (f->pairs)
        (void)snprintf(ret, cap, "%d pairs of up to %d tokens", f->packs.n,
                       f->longest);
    else if (f->text->packed)
        (void)snprintf(ret, cap,
                       "%d rows (%d packs of %d tokens, %.1f %% padding; %s: "
                       "%.1f %%)",
                       f->data.n, f->packs.n, f->longest,
                       padding(f, f->packs.n), best ? "in_order" : "best_fit",
                       padding(f, f->packs_other));
    else
        (void)snprintf(ret, cap, "%d rows of up to %d tokens", f->data.n,
                       f->longest);
}
