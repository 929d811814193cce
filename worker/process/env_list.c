/* env_list.c - see env_list.h. */
#include "worker/process/env_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool env_has(const struct env_list *e, const char *key)
{
    size_t n = strlen(key);
    const char *at = buf_str(&e->text), *end = at + e->text.len;
    for (; at < end; at += strlen(at) + 1)
        if (strncmp(at, key, n) == 0 && at[n] == '=')
            return true;
    return false;
}

int env_add(struct env_list *e, const char *key, const char *value,
            struct error *err)
{
    size_t at = e->text.len;
    if (env_has(e, key))
        return 0;
    if (buf_add(&e->starts, &at, sizeof(at), err) < 0 ||
        buf_addf(&e->text, err, "%s=%s%c", key, value, '\0') < 0)
        return -1;
    return 0;
}

int env_pass(struct env_list *e, const char *key, struct error *err)
{
    const char *value = getenv(key);
    return value != NULL ? env_add(e, key, value, err) : 0;
}

int env_number(struct env_list *e, const char *key, int64_t value,
               struct error *err)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    return env_add(e, key, text, err);
}

int env_pass_all(struct env_list *e, const char *beginning, struct error *err)
{
    size_t len = strlen(beginning);
    for (char **v = environ; *v; v++) {
        const char *equals = strchr(*v, '=');
        if (strncmp(*v, beginning, len) != 0 || equals == NULL)
            continue;
        char *key = strndup(*v, (size_t)(equals - *v));
        int rc = key ? env_add(e, key, equals + 1, err)
                     : error_set(err, ERR_NOMEM, "environment");
        free(key);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int env_finish(struct env_list *e, struct error *err)
{
    size_t n = e->starts.len / sizeof(size_t);
    const size_t *starts = (const size_t *)(const void *)e->starts.data;
    e->array = calloc(n + 1, sizeof(*e->array));
    if (e->array == NULL)
        return error_set(err, ERR_NOMEM, "environment");
    for (size_t i = 0; i < n; i++)
        e->array[i] = e->text.data + starts[i];
    return 0;
}

void env_clear(struct env_list *e)
{
    if (e->text.cap > 0)
        explicit_bzero(e->text.data, e->text.cap);
    buf_clear(&e->text);
    buf_clear(&e->starts);
    free(e->array);
    e->array = NULL;
}
