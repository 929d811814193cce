/* model_card.c - see model_card.h. */
#include "worker/llm/files/model_card.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"

static const char file[] = "README.md";
static const char ours[] = "---\n# A model card of mgpu.\n";
enum { CARD_MAX_BYTES = 1 << 20, NAME_CAP = 96 };

/* ---- the name of the base ------------------------------------------------ */

/* The part of a path before `end`, without slashes at its end. */
static const char *last_part(const char *path, const char **io_end)
{
    const char *end = *io_end;
    while (end > path && end[-1] == '/')
        end--;
    const char *at = end;
    while (at > path && at[-1] != '/')
        at--;
    *io_end = end;
    return at;
}

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z') || strchr("._-", c) != NULL;
}

/* Nothing in it has a meaning in YAML or in Markdown. */
static void copy_plain(const char *from, const char *end, char ret[NAME_CAP])
{
    size_t n = 0;
    for (; from < end && n < NAME_CAP - 1; from++)
        ret[n++] = (char)(is_plain(*from) ? *from : '_');
    ret[n] = '\0';
}

/* The hub's cache has .../models--ORG--NAME/snapshots/HASH. */
static void name_of(const char *path, char ret[NAME_CAP])
{
    static const char prefix[] = "models--", middle[] = "snapshots";
    const char *end = path + strlen(path);
    const char *last = last_part(path, &end);
    const char *up_end = last, *up = last_part(path, &up_end);
    copy_plain(last, end, ret);
    if ((size_t)(up_end - up) != sizeof(middle) - 1 ||
        strncmp(up, middle, sizeof(middle) - 1) != 0)
        return;
    const char *repo_end = up, *repo = last_part(path, &repo_end);
    if (strncmp(repo, prefix, sizeof(prefix) - 1) != 0)
        return;
    copy_plain(repo + sizeof(prefix) - 1, repo_end, ret);
    char *cut = strstr(ret, "--");
    if (cut != NULL) {
        *cut = '/';
        memmove(cut + 1, cut + 2, strlen(cut + 2) + 1);
    }
}

/* ---- the text ------------------------------------------------------------ */

static int add_head(const struct model_card *c, const char *name,
                    struct buf *out, struct error *err)
{
    return buf_addf(out, err,
                    "%sbase_model: \"%s\"\nlibrary_name: %s\n"
                    "pipeline_tag: text-generation\ntags: [mgpu%s%s]\n---\n",
                    ours, name, c->rank > 0 ? "peft" : "transformers",
                    c->rank > 0 ? ", lora" : "", c->pairs ? ", dpo" : "");
}

static int add_result(const struct model_facts *f, struct buf *out,
                      struct error *err)
{
    const char *which = "the last evaluation";
    if (!f->has_rows)
        return buf_addf(out, err, "- Result: no evaluation.\n");
    if (!isfinite(f->loss))
        return 0;
    if (f->is_best && isfinite(f->missed))
        return buf_addf(out, err,
                        "- Result: validation loss %.4f, the best evaluation "
                        "that could be saved; the best had %.4f.\n",
                        f->loss, f->missed);
    if (f->is_best)
        which = "the best evaluation";
    return buf_addf(out, err, "- Result: validation loss %.4f, %s.\n", f->loss,
                    which);
}

static int add_parent(const struct model_facts *f, struct buf *out,
                      struct error *err)
{
    if (f->parent == NULL)
        return 0;
    return f->parent[0] != '\0'
               ? buf_addf(out, err, "- Continues job %s.\n", f->parent)
               : buf_addf(out, err,
                          "- Continues the checkpoint of another "
                          "job.\n");
}

static int text_of(const struct model_card *c, const struct model_facts *f,
                   struct buf *out, struct error *err)
{
    char name[NAME_CAP];
    char least[20] = "";
    name_of(c->base, name);
    if (add_head(c, name, out, err) < 0)
        return -1;
    if (c->least_rank > 0 && c->least_rank < c->rank)
        (void)snprintf(least, sizeof(least), "%d to ", c->least_rank);
    int rc = c->rank > 0
                 ? buf_addf(out, err, "# Adapters of rank %s%d for %s\n\n",
                            least, c->rank, name)
                 : buf_addf(out, err, "# %s, all weights trained\n\n", name);
    rc = rc < 0 ? rc
                : buf_addf(out, err,
                           "- Data: %s.\n- Training: %" PRId64
                           " iterations, of %d epoch%s, in %s%s%s.\n",
                           f->data, f->iteration, f->epochs,
                           f->epochs == 1 ? "" : "s", c->type,
                           c->quantizer[0] != '\0' ? ", linears in " : "",
                           c->quantizer);
    rc = rc < 0 ? rc : add_parent(f, out, err);
    rc = rc < 0 ? rc : add_result(f, out, err);
    return rc < 0 ? rc
                  : buf_addf(out, err,
                             "- Base: %s, digest %016" PRIx64
                             " of its values in %s.\n",
                             name, (uint64_t)c->digest, c->type);
}

/* ---- the file ------------------------------------------------------------ */

/* Whether the file is absent, or a card of ours. */
static int may_write(const char *dir, bool *ret, struct error *err)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    struct error why = ERROR_INIT;
    int rc = buf_addf(&path, err, "%s/%s", dir, file);
    *ret = false;
    if (rc == 0 &&
        buf_read_file(&text, buf_str(&path), CARD_MAX_BYTES, &why) < 0)
        *ret = why.code == ERR_NOTFOUND; /* what cannot be read stays */
    else if (rc == 0)
        *ret = strncmp(buf_str(&text), ours, sizeof(ours) - 1) == 0;
    buf_clear(&path);
    buf_clear(&text);
    return rc;
}

int model_card_write(const char *dir, const struct model_card *c,
                     const struct model_facts *f, struct error *err)
{
    struct buf text = BUF_INIT;
    bool writes = false;
    int rc = may_write(dir, &writes, err);
    if (rc == 0 && writes)
        rc = text_of(c, f, &text, err);
    if (rc == 0 && writes)
        rc = file_atomic_put(dir, file, buf_str(&text), text.len, FILE_PUBLIC,
                             err);
    buf_clear(&text);
    return rc;
}
