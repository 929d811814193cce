/* saved_formats.h - formats that users define in config.yaml. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_SAVED_FORMATS_H
#define MGPU_SCHEDULER_TOOLS_COMMON_SAVED_FORMATS_H

#include <stddef.h>
#include <stdio.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { FORMATS_MAX = 64 };

struct format {
    char *name, *columns; /* "id,name": columns, or built-in formats */
};

struct formats {
    struct format list[FORMATS_MAX];
    size_t n;
    char *usual; /* default for -o; NULL: not set */
};

/* Reads $XDG_CONFIG_HOME/mgpu/config.yaml, else ~/.config/mgpu/config.yaml; a
 * missing file defines no formats.
 *
 *   format: mine
 *   formats:
 *     mine: [id, name, state]
 *     more: mine,labels
 *
 * err  ERR_CONFIG "FILE:3:9: no column 'nme'; did you mean 'name'?", the first
 *      error; ERR_IO it cannot be read
 * own  formats_clear() */
int formats_read(struct formats *ret, struct error *err) MUST_CHECK;
/* The same from a text. file: for messages */
int formats_parse(const char *text, size_t len, const char *file,
                  struct formats *ret, struct error *err) MUST_CHECK;
void formats_clear(struct formats *f);

/* Prints the user's formats in the help of -o. */
void formats_help(const struct formats *f, FILE *out);

/* "mine,exit" with the user's names replaced, for columns_parse(). */
int formats_expand(const struct formats *f, const char *text, struct buf *out,
                   struct error *err) MUST_CHECK;

#endif
