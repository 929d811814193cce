/* llm_attention_case.h - packed documents with queries, keys and values, and
 * what attention and its gradient are expected to be. */
#ifndef MGPU_TESTS_LLM_ATTENTION_CASE_H
#define MGPU_TESTS_LLM_ATTENTION_CASE_H

#include <stdbool.h>

#include "tests/unit/kernels/contract/bed.h"

enum { MAX_DOCS = 6, IN_PAD = 3, OUT_PAD = 5, EVEN_PAD = 8 };

/* Lengths of documents; -n is n tokens of padding. `even`: rows of 16-bit
 * values begin at multiples of 16 bytes, as a GPU's tensor cores want them. */
struct layout {
    int32_t docs[MAX_DOCS];
    int32_t heads, kv_heads, D;
    bool even;
};

/* q, k and v lie side by side in x, as one product leaves them. */
struct attend_case {
    struct bed *b;
    struct attention s;
    int32_t ld, ldo, ldd, *pos;
    void *pos_at;
    struct tensor x, o, lse, dout, dq, dk, dv;
};

/* Fills everything with random values; ends with attend_drop(). */
struct attend_case attend_make(struct bed *b, const struct layout *l);
void attend_drop(struct attend_case *c);
void attend_push_positions(struct attend_case *c); /* pos to the device */

/* Where q, k or v (0, 1, 2) begins in a row of x, and an element's address. */
int64_t attend_part(const struct attend_case *c, int which);
void *attend_at(const struct attend_case *c, const struct tensor *t, int64_t i);

void attend_forward(struct attend_case *c);
void attend_backward(struct attend_case *c);
void attend_pull(struct attend_case *c); /* all results */

/* All results by plain loops over the pairs; ends with expected_drop(). */
struct expected {
    double *o, *lse, *dq, *dk, *dv;
};

struct expected attend_results(struct attend_case *c); /* as they are now */
struct expected attend_expect(const struct attend_case *c);
void expected_drop(struct expected *e);

/* All results against plain loops. */
void attend_all(struct bed *b, const struct layout *l);
/* The same with a window; 0: none. */
void attend_window(struct bed *b, const struct layout *l, int32_t window);
/* Windows of many lengths: llm_attention_window.c. */
void attend_windows(struct bed *b, bool even);
/* How many values of rows lo..hi-1 differ from was; NULL: are not finite. */
int64_t attend_differ(const struct tensor *t, const double *was, int64_t ld,
                      int64_t lo, int64_t hi);
/* `value`, NaN or an infinity, in q, k, v or do (0 to 3) of token 15, of a
 * document that has tokens 10 to 29: reaches its own document alone. */
enum { ATTEND_INPUTS = 4 };
void attend_not_finite(struct bed *b, const struct layout *l, int which,
                       double value);

double attend_dot(const double *a, const double *b, int32_t D);
double *tensor_values(const struct tensor *t); /* a copy; the caller frees */

#endif
