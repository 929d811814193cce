/* text.c - tokens/s of one thread.
 *
 * usage: text TEXT TOKENIZER...
 *
 * A text is tokenised paragraph by paragraph, as rows of a data set are. The
 * best of three passes counts. tests/golden/token_ids.py --bench prints what
 * tiktoken and HF tokenizers do with the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "worker/data/tokenizer/tokenizer.h"

enum { TEXT_MAX = 1 << 28, PASSES = 3 };

static void must(int rc, const struct error *err)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "text: %s\n", err->msg);
    exit(1);
}

static double now(void)
{
    return clock_real.now_s(&clock_real);
}

static size_t one_pass(const struct tokenizer *t, const struct buf *text,
                       struct buf *ids)
{
    struct error err = ERROR_INIT;
    const char *p = buf_str(text), *end = p + text->len;
    size_t n = 0;
    while (p <= end) {
        const char *stop = strstr(p, "\n\n");
        stop = stop == NULL ? end : stop;
        buf_reset(ids);
        must(tokenizer_encode(t, p, (size_t)(stop - p), 0, ids, &err), &err);
        n += ids->len / sizeof(int32_t);
        p = stop + 2;
    }
    return n;
}

static void measure(const struct buf *text, const char *path)
{
    struct error err = ERROR_INIT;
    struct tokenizer *t;
    struct buf ids = BUF_INIT;
    double best = 0;
    size_t n = 0;
    const double begin = now();
    must(tokenizer_open(path, &t, &err), &err);
    const double opening = now() - begin;
    for (int i = 0; i < PASSES; i++) {
        const double start = now();
        n = one_pass(t, text, &ids);
        const double s = now() - start;
        best = (double)n / s > best ? (double)n / s : best;
    }
    (void)printf("mgpu         %zu tokens, %.0f tokens/s; opened in %.2f s: "
                 "%s\n",
                 n, best, opening, path);
    buf_clear(&ids);
    tokenizer_close(t);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: text TEXT TOKENIZER...\n");
        return 64;
    }
    must(buf_read_file(&text, argv[1], TEXT_MAX, &err), &err);
    for (int i = 2; i < argc; i++)
        measure(&text, argv[i]);
    buf_clear(&text);
    return 0;
}
