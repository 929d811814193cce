/* shown.h - what a view of mgpu-stat prints, for tests. */
#ifndef MGPU_TESTS_TOOLS_VIEWS_SHOWN_H
#define MGPU_TESTS_TOOLS_VIEWS_SHOWN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/views/show.h"
#include "tests/tap.h"

static inline json_t *load(const char *text)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    if (!o)
        tap_diag("fixture: line %d: %s", why.line, why.text);
    return o;
}

static struct show_conf conf;
static char *shown;
static size_t shown_len;

static inline void begin(void)
{
    free(shown);
    shown = NULL;
    conf = (struct show_conf){.header = true,
                              .style = {.ascii = true},
                              .out = open_memstream(&shown, &shown_len)};
}

static inline const char *end(void)
{
    (void)fclose(conf.out);
    return shown;
}

static inline bool has(const char *needle)
{
    bool yes = strstr(shown, needle) != NULL;
    if (!yes)
        tap_diag("'%s' is not in:\n%s", needle, shown);
    return yes;
}

#endif
