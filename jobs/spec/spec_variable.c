/* spec_variable.c - translate MGPU_SET_TRAIN_BATCH_SIZE to train.batch_size.
 *
 * Names of shell variables have no dots, so '_' also stands for a dot; a test
 * checks that no two keys collide. */
#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec_table.h"

static char upper(char c)
{
    return (char)(c == '.' ? '_' : c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

/* How many bytes of name match the n bytes of path, in capitals; 0: no
 * match. */
static size_t match(const char *name, const char *path, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != upper(path[i]))
            return 0;
    return n;
}

/* The longest matching section, in which to look for a misspelt name. */
static size_t section_of(const char *name, const char **ret)
{
    size_t best = 0;
    for (size_t i = 0; i < spec_schema.n; i++) {
        const char *path = spec_schema.keys[i].path;
        for (const char *dot = strchr(path, '.'); dot;
             dot = strchr(dot + 1, '.')) {
            size_t n = match(name, path, (size_t)(dot - path) + 1);
            if (n > best) {
                best = n;
                *ret = path;
            }
        }
    }
    return best;
}

bool spec_key_of(const char *name, char *out, size_t cap)
{
    const char *section = "";
    for (size_t i = 0; i < spec_schema.n; i++) {
        const struct schema_key *k = &spec_schema.keys[i];
        size_t n = match(name, k->path, strlen(k->path));
        if (n > 0 && name[n] == '\0') {
            return snprintf(out, cap, "%s", k->path) < (int)cap;
        }
    }
    for (size_t i = 0; i < spec_schema.n; i++) {
        const struct schema_key *k = &spec_schema.keys[i];
        size_t n = match(name, k->path, strlen(k->path));
        if (k->type == KEY_MAP && n > 0 && name[n] == '_' && name[n + 1]) {
            return snprintf(out, cap, "%s.%s", k->path, name + n + 1) <
                   (int)cap;
        }
    }
    size_t n = section_of(name, &section);
    bool fits =
        snprintf(out, cap, "%.*s%s", (int)n, section, name + n) < (int)cap;
    for (char *p = out; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    return fits;
}
