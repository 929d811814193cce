/* token_rows.c - any bytes as a data set: what is read can be packed and put
 * into a batch whose numbers are those that the model relies on.
 *
 * The first three bytes choose flags, max_seq_len, template and format. The
 * tokenizer is a double, a token for each byte: libsentencepiece is not what is
 * tested. */
#include "worker/llm/batches/token_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/data/chat/chat_tokenizer.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const struct tokenizer_ids ids = {.size = 259, .bos = 1, .eos = 2};

const struct tokenizer_ids *tokenizer_ids(const struct tokenizer *t)
{
    (void)t;
    return &ids;
}

/* A header as of Llama 3, if the input says so. */
static bool has_headers;

int32_t tokenizer_special(const struct tokenizer *t, const char *name)
{
    (void)t;
    (void)name;
    return has_headers ? 0 : -1;
}

bool tokenizer_knows_behind(const struct tokenizer *t)
{
    (void)t;
    return true;
}

void chat_tokenizer_end(const char *dir, const struct tokenizer *t,
                        struct chat_text_end *ret)
{
    (void)dir;
    (void)t;
    *ret = (struct chat_text_end){.id = -1};
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t flags, struct buf *ret, struct error *err)
{
    (void)t;
    (void)flags;
    for (size_t i = 0; i < len; i++) {
        const int32_t id = 3 + (unsigned char)text[i];
        if (buf_add(ret, &id, sizeof(id), err) < 0)
            return -1;
    }
    return 0;
}

int tokenizer_encode_some(const struct tokenizer *t, const char *text,
                          size_t len, uint32_t flags, size_t most,
                          struct buf *ret, struct error *err)
{
    return tokenizer_encode(t, text, most > 0 && most < len ? most : len, flags,
                            ret, err);
}

static void need(bool holds)
{
    if (!holds)
        abort();
}

static void check_rows(const struct token_data *d, int32_t most)
{
    const struct token_row *rows = token_data_rows(d);
    size_t at = 0;
    for (int32_t i = 0; i < d->n; i++) {
        need(rows[i].first >= at && rows[i].n > 1 && rows[i].labelled > 0);
        need(rows[i].n <= d->longest && (most == 0 || rows[i].n <= most));
        at = rows[i].first + (size_t)rows[i].n;
    }
    need(d->n > 0 && at <= token_list_values(&d->ids));
    need(token_list_values(&d->labels) == token_list_values(&d->ids));
    for (size_t i = 0; i < at; i++) {
        need(token_data_ids(d)[i] >= 0 && token_data_ids(d)[i] <= d->most);
        need(token_data_labels(d)[i] >= -1 &&
             token_data_labels(d)[i] <= d->most);
    }
}

static void check_batch(const struct token_rows *r)
{
    const int32_t n = r->n * r->S;
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t at = r->order[i];
        need(at >= 0 && at < n);
        if (i > 0) {
            const int32_t last = r->order[i - 1];
            const int32_t rise = r->id[at] - r->id[last];
            need(rise > 0 || (rise == 0 && last < at));
        }
        need(r->pos[i] == 0 || r->pos[i] == r->pos[i - 1] + 1);
        sum += at;
    }
    need(sum == (int64_t)n * (n - 1) / 2 && r->tokens <= n);
    for (int32_t i = 0; i < r->n_labelled; i++)
        need(r->labelled[i] < n && r->label[i] >= 0 &&
             (i == 0 || r->labelled[i - 1] < r->labelled[i]));
}

/* All samples, and a row of padding, in one batch. */
static void check_fill(const struct token_data *d, const struct packing *p,
                       int32_t most)
{
    enum { TOKENS = 1 << 16, CLASSES = 1 << 16 };
    int32_t *index = calloc((size_t)p->n, sizeof(*index));
    need(index != NULL);
    for (int32_t i = 0; i < p->n; i++) {
        index[i] = i;
        need(most == 0 || packing_tokens(p, i) <= most);
    }
    const struct token_pick pick = {
        .data = d, .packs = p, .index = index, .n = p->n};
    struct token_rows r = {.n = p->n + 1, .S = token_rows_longest(&pick)};
    const size_t n = (size_t)r.n * (size_t)r.S;
    if (n <= TOKENS && d->most < CLASSES) {
        int32_t *x = calloc(5 * n + (size_t)d->most + 1, sizeof(*x));
        need(x != NULL);
        r.id = x;
        r.pos = x + n;
        r.order = x + 2 * n;
        r.labelled = x + 3 * n;
        r.label = x + 4 * n;
        need(token_rows_fill(&r, &pick, x + 5 * n, d->most + 1, NULL) == 0);
        check_batch(&r);
        need(r.n_labelled == d->labelled);
        free(x);
    }
    free(index);
}

static void check(const struct token_data *d, const struct spec_text *text,
                  int32_t max_seq_len)
{
    const bool packed = text->packed;
    struct error err = ERROR_INIT;
    struct packing p = {.n = 0};
    check_rows(d, text->split_across_pack ? 0 : max_seq_len);
    const struct packing_conf conf = {.max_seq_len = packed ? max_seq_len : 0,
                                      .order = text->packing,
                                      .split = text->split_across_pack};
    if (packing_of(d, &conf, &p, &err) < 0)
        abort();
    check_fill(d, &p, packed ? max_seq_len : 0);
    packing_clear(&p);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct token_data d = {.n = 0};
    char path[64];
    if (size < 3)
        return 0;
    const int32_t max_seq_len = data[1] < 'a' ? 0 : 4 * (data[1] - 'a');
    int fd = memfd_create("rows", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data + 3, size - 3) != (ssize_t)(size - 3))
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct spec_text text = {
        .template = data[0] & 64 ? TEMPLATE_PROMPT_COMPLETION
                                 : (enum spec_template)(data[2] % 8),
        .path = path,
        .packed = data[0] & 1,
        .packing = data[0] & 2 ? PACKING_BEST_FIT : PACKING_IN_ORDER,
        .train_on_input = data[0] & 4,
        .samples = data[0] & 8 ? 2 : 0,
        .on_bad_row = data[0] & 16 ? BAD_ROW_SKIP : BAD_ROW_FAIL,
        .split_across_pack = data[0] & 32};
    has_headers = data[2] & 8;
    const struct token_conf conf = {
        .text = &text,
        .system_prompt = data[2] & 16 ? "Be kind." : NULL,
        .prompt = (enum spec_prompt)((data[2] >> 5) % 6),
        .pairs = text.template == TEMPLATE_PREFERENCE,
        .eos = -1,
        .max_seq_len = max_seq_len};
    if (token_data_open(&conf, &d, &err) == 0)
        check(&d, &text, max_seq_len);
    else if (err.code == ERR_NONE || err.msg[0] == '\0' ||
             token_list_values(&d.ids) > 0)
        abort();
    token_data_clear(&d);
    (void)close(fd);
    return 0;
}
