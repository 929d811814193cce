/* place_text.h - the nodes and GPU indexes of an attempt as text: "n1:0,1
 * n2:0-3".
 *
 * Per node its name, then the indexes of its GPUs (or slots); three or more
 * consecutive ones are written as a range. A node without indexes is its bare
 * name. */
#ifndef MGPU_SLURM_PLACE_TEXT_H
#define MGPU_SLURM_PLACE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

/* Holds 1024 indexes of up to 4 digits without a range. Public only so that a
 * caller can keep it on its stack. */
struct place_text {
    char text[6144];
    size_t len;
    int32_t from, to; /* the current range of indexes; from < 0: none */
    int32_t is_first; /* the next range is the node's first */
};

void place_text_begin(struct place_text *t);
void place_text_node(struct place_text *t, const char *name);
void place_text_index(struct place_text *t, int32_t index); /* ascending */
/* Writes it to ret[cap]; ends in "..." if it does not fit. */
void place_text_end(struct place_text *t, char *ret, size_t cap);
void place_text_cut(const char *text, char *ret, size_t cap); /* truncates in
                                                               * the same way */

/* Parses a text about one node, as place_text_end() wrote it.
 *
 * out  used[n]  set to 1 for each named index, otherwise untouched
 * err  ERR_INVAL not such a text, or an index >= n; used is then undefined */
int place_text_parse(const char *text, unsigned char *used, int32_t n,
                     struct error *err) MUST_CHECK;

#endif
