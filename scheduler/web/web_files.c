/* web_files.c - the files of the page, see web_files.h.
 *
 * The Makefile lists them in WEB_PAGE, a line EMBED(number, "name") each, and
 * the assembler includes them unchanged.
 */
#include "scheduler/web/web_files.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "jobs/http/digest_ssl.h"

#if defined(WEB_PAGE) && !defined(__cppcheck__)
#define EMBED(n, file)                                                        \
    __asm__(".section .rodata\nweb_page_" #n ":\n"                            \
            ".incbin \"scheduler/web/page/" file "\"\nweb_page_" #n "_end:\n" \
            ".byte 0\n.previous\n");                                          \
    extern const char web_page_##n[], web_page_##n##_end[];
#include WEB_PAGE
#undef EMBED
#endif

static const struct web_file files[] = {
#if defined(WEB_PAGE) && !defined(__cppcheck__)
#define EMBED(n, file) {file, web_page_##n, web_page_##n##_end},
#include WEB_PAGE
#undef EMBED
#endif
    {NULL, NULL, NULL},
};

static const struct {
    const char *end, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".woff2", "font/woff2"},
};

static bool is_named(const struct web_file *f, const char *name,
                     const char *within)
{
    size_t len = strlen(name);
    if (!within)
        return strcmp(f->name, name) == 0 && !strchr(name, '/');
    return strncmp(f->name, name, len) == 0 && f->name[len] == '/' &&
           strcmp(f->name + len + 1, within) == 0;
}

const struct web_file *web_files_find(const char *name, const char *within)
{
    for (const struct web_file *f = files; f->name; f++)
        if (is_named(f, name, within))
            return f;
    return NULL;
}

const char *web_files_type(const struct web_file *f)
{
    size_t len = strlen(f->name);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        size_t n = strlen(types[i].end);
        if (len > n && strcmp(f->name + len - n, types[i].end) == 0)
            return types[i].type;
    }
    return "text/plain; charset=utf-8";
}

int web_files_etag(const struct web_file *f, char ret[WEB_ETAG_CAP],
                   struct error *err)
{
    char hex[DIGEST_HEX_CAP];
    const struct digest_part part = {f->data, (size_t)(f->end - f->data)};
    if (digest_parts(&part, 1, hex, err) < 0)
        return -1;
    (void)snprintf(ret, WEB_ETAG_CAP, "\"%.32s\"", hex);
    return 0;
}
