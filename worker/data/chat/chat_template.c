/* chat_template.c - see chat_template.h.
 * src  transformers, tokenization_utils_base.py: chat_template of
 *      tokenizer_config.json is a text, or a list of texts with names;
 *      chat_template.jinja comes before it */
#include "worker/data/chat/chat_template.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "jobs/base/buf.h"
#include "jobs/http/digest_ssl.h"
#include "worker/data/chat/chat_table.h"

/* Llama 3's tokenizer_config.json has 50 KB, most of it names of tokens. */
enum { CONFIG_MAX_BYTES = 16 << 20 };

/* ---- the text ------------------------------------------------------------ */

static bool read_file(const char *dir, const char *name, struct buf *ret)
{
    struct buf path = BUF_INIT;
    const bool has =
        buf_addf(&path, NULL, "%s/%s", dir, name) == 0 &&
        buf_read_file(ret, buf_str(&path), CONFIG_MAX_BYTES, NULL) == 0;
    buf_clear(&path);
    return has;
}

/* The template of the list that is named default; of one without names none. */
static const json_t *default_of(const json_t *list)
{
    const json_t *v;
    size_t i;
    json_array_foreach(list, i, v)
    {
        const char *name = json_string_value(json_object_get(v, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_object_get(v, "template");
    }
    return NULL;
}

/* Replaces the configuration by the template in it. A list without a default
 * leaves an empty text. */
static bool take_template(struct buf *io)
{
    json_t *o = json_loadb(buf_str(io), io->len, 0, NULL);
    const json_t *v = json_object_get(o, "chat_template");
    const bool has = json_string_length(v) > 0 || json_array_size(v) > 0;
    bool done = has;
    buf_reset(io);
    v = json_is_array(v) ? default_of(v) : v;
    if (has && json_is_string(v))
        done =
            buf_add(io, json_string_value(v), json_string_length(v), NULL) == 0;
    json_decref(o);
    return done;
}

/* *ret_name: of the file that has it; NULL: there is none. */
static bool read_template(const char *dir, struct buf *ret,
                          const char **ret_name)
{
    static const char file[] = "chat_template.jinja",
                      config[] = "tokenizer_config.json";
    *ret_name = file;
    if (read_file(dir, file, ret))
        return true;
    buf_reset(ret);
    *ret_name = config;
    return read_file(dir, config, ret) && take_template(ret);
}

bool chat_template_read(const char *dir, struct buf *ret)
{
    const char *name;
    return read_template(dir, ret, &name);
}

bool chat_template_is_in(const char *dir)
{
    struct buf text = BUF_INIT;
    const char *name;
    const bool has = read_template(dir, &text, &name);
    buf_clear(&text);
    return has;
}

/* ---- which it is --------------------------------------------------------- */

struct known {
    const char *digest;
    enum spec_prompt prompt;
    const char *model, *date; /* whose it is, and when it was read */
};

static const struct known known[] = {
#include "worker/data/chat/chat_known.def"
};

static int digest_of(const char *text, size_t len, char ret[DIGEST_HEX_CAP],
                     struct error *err)
{
    struct buf bare = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; i < len && rc == 0; i++)
        if (strchr(" \t\n\v\f\r", text[i]) == NULL || text[i] == '\0')
            rc = buf_add(&bare, &text[i], 1, err);
    const struct digest_part part = {bare.data, bare.len};
    rc = rc < 0 ? rc : digest_parts(&part, 1, ret, err);
    buf_clear(&bare);
    return rc;
}

/* The format whose marks the template has, all of them, and the most of these;
 * NULL: none. */
static const struct chat_table *nearest(const char *text, size_t len)
{
    const struct chat_table *t, *best = NULL;
    int most = 0;
    for (int i = 0; (t = chat_table_at(i)) != NULL; i++) {
        int n = 0;
        while (n < CHAT_MARKS && t->marks[n] != NULL &&
               memmem(text, len, t->marks[n], strlen(t->marks[n])) != NULL)
            n++;
        if (n > most && (n == CHAT_MARKS || t->marks[n] == NULL)) {
            most = n;
            best = t;
        }
    }
    return best;
}

static int unknown(const char *name, const struct chat_table *near,
                   struct error *err)
{
    if (near != NULL)
        return error_set(err, ERR_INVAL,
                         "%s: an unknown chat_template, nearest is %s: set "
                         "train.tokenizer.prompt_template: %s, or null for "
                         "torchtune's format",
                         name, near->name, near->name);
    return error_set(err, ERR_INVAL,
                     "%s: an unknown chat_template, it resembles none: set "
                     "train.tokenizer.prompt_template: NAME, or null for "
                     "torchtune's format",
                     name);
}

/* in  name  of the file, for the message */
static int recognise(const char *name, const char *text, size_t len,
                     enum spec_prompt *ret, struct error *err)
{
    char digest[DIGEST_HEX_CAP];
    if (digest_of(text, len, digest, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].digest, digest) == 0) {
            *ret = known[i].prompt;
            return 0;
        }
    return unknown(name, nearest(text, len), err);
}

int chat_template_find(const char *dir, enum spec_prompt *ret,
                       struct error *err)
{
    struct buf text = BUF_INIT, path = BUF_INIT;
    const char *name;
    int rc = 0;
    if (!read_template(dir, &text, &name))
        *ret = PROMPT_NONE;
    else
        rc =
            buf_addf(&path, err, "%s/%s", dir, name) < 0
                ? -1
                : recognise(buf_str(&path), buf_str(&text), text.len, ret, err);
    buf_clear(&text);
    buf_clear(&path);
    return rc;
}

/* ---- of a job ------------------------------------------------------------ */

const char *chat_template_dir(const struct job_spec *s)
{
    const char *own = s->train.tokenizer.path;
    struct stat st;
    return own != NULL && stat(own, &st) == 0 && S_ISDIR(st.st_mode)
               ? own
               : s->train.checkpointer.dir;
}

int chat_template_choose(const struct job_spec *s, enum spec_template rows,
                         enum spec_prompt *ret, struct error *err)
{
    const enum spec_prompt named = s->train.tokenizer.prompt_template;
    const char *dir = chat_template_dir(s);
    if (named == PROMPT_AUTO && dir != NULL && rows != TEMPLATE_TOKENS &&
        rows != TEMPLATE_COMPLETION)
        return chat_template_find(dir, ret, err);
    *ret = named == PROMPT_AUTO ? PROMPT_NONE : named;
    return 0;
}

enum spec_prompt chat_template_learned(const struct job_spec *s)
{
    enum spec_prompt is = s->train.tokenizer.prompt_template;
    const char *dir = chat_template_dir(s);
    if (is == PROMPT_AUTO &&
        (dir == NULL || chat_template_find(dir, &is, NULL) < 0))
        return PROMPT_NONE;
    return is;
}
