/* explain.c - print the explanations of diagnostic codes; see explain.h. */
#include "scheduler/tools/submit/explain.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "jobs/schema/diagnostic_codes.h"
#include "jobs/text/text.h"
#include "scheduler/tools/common/client.h"

enum { COLUMNS = 76 };

static void print_paragraph(const char *text)
{
    while (*text) {
        size_t n = strlen(text);
        if (n > COLUMNS)
            for (n = COLUMNS; n > 1 && text[n] != ' '; n--)
                ;
        printf("%.*s\n", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

static void print_lines(const char *head, const char *text)
{
    printf("\n%s\n", head);
    while (*text) {
        size_t len = strcspn(text, "\n");
        printf("    %.*s\n", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

static void print_note(const struct code_note *c)
{
    printf("%s: %s\n\n", c->code, c->title);
    print_paragraph(c->text);
    print_lines("Wrong:", c->wrong);
    print_lines("Right:", c->right);
    printf("\nSee %s.\n", c->see);
}

static void print_list(void)
{
    size_t n;
    const struct code_note *c = code_notes(&n);
    for (size_t i = 0; i < n; i++)
        printf("%s  %s\n", c[i].code, c[i].title);
}

static json_t *note_json(const struct code_note *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "code", c->code,
                     "severity", *c->code == 'E' ? "error" : "warning", "title",
                     c->title, "text", c->text, "wrong", c->wrong, "right",
                     c->right, "see", c->see);
}

static int print_json(const char *const *words, int n, struct error *err)
{
    size_t n_all;
    const struct code_note *all = code_notes(&n_all);
    json_t *codes = json_array();
    bool ok = codes != NULL;
    for (size_t i = 0; n == 0 && i < n_all; i++)
        ok = ok && json_array_append_new(codes, note_json(&all[i])) == 0;
    for (int i = 0; i < n; i++)
        ok = ok &&
             json_array_append_new(codes, note_json(code_find(words[i]))) == 0;
    json_t *o =
        ok ? json_pack("{s:s, s:O}", "schema", "mgpu.explain/1", "codes", codes)
           : NULL;
    int rc = client_print(o, err);
    json_decref(o);
    json_decref(codes);
    return rc;
}

static int unknown(const char *word, struct error *err)
{
    char q[TEXT_QUOTE_CAP];
    const char *near = code_near(word);
    (void)text_quote(q, sizeof(q), word);
    if (near)
        return error_set(err, ERR_USAGE, "no code is '%s'; did you mean '%s'?",
                         q, near);
    return error_set(err, ERR_USAGE,
                     "no code is '%s'; mgpu-submit --explain lists them", q);
}

int explain(const char *const *words, int n, bool is_json, struct error *err)
{
    for (int i = 0; i < n; i++)
        if (!code_find(words[i]))
            return unknown(words[i], err);
    if (is_json)
        return print_json(words, n, err);
    if (n == 0)
        print_list();
    for (int i = 0; i < n; i++) {
        if (i > 0)
            (void)putchar('\n');
        print_note(code_find(words[i]));
    }
    return 0;
}
