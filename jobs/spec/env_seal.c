/* env_seal.c - see env_seal.h. */
#include "jobs/spec/env_seal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/schema.h"
#include "jobs/spec/secrets_file.h"

#define HEAD "sealed:1:"
enum { HEAD_LEN = sizeof(HEAD) - 1, ID_LEN = SEAL_ID_CAP - 1 };

static const char hex_digits[] = "0123456789abcdef";

bool seal_is_id(const char *text)
{
    return strspn(text, hex_digits) == ID_LEN && text[ID_LEN] == '\0';
}

/* Where the base64 begins; NULL: it is none. */
static const char *body_of(const char *value)
{
    if (strncmp(value, HEAD, HEAD_LEN) != 0 ||
        strspn(value + HEAD_LEN, hex_digits) != ID_LEN ||
        value[HEAD_LEN + ID_LEN] != ':')
        return NULL;
    return value + HEAD_LEN + ID_LEN + 1;
}

static void take_id(const char *value, char *ret)
{
    if (ret)
        (void)snprintf(ret, SEAL_ID_CAP, "%.*s", (int)ID_LEN, value + HEAD_LEN);
}

bool seal_is(const struct spec_pair *p)
{
    return schema_is_secret(p->key) && body_of(p->value);
}

bool seal_wants(const struct spec_map *env)
{
    for (size_t i = 0; i < env->n; i++)
        if (schema_is_secret(env->pairs[i].key))
            return true;
    return false;
}

static int seal_one(struct spec_pair *p, const char *id,
                    const unsigned char *key, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = buf_addf(&b, err, HEAD "%s:", id);
    if (rc == 0)
        rc = seal_text(key, p->key, p->value, &b, err);
    char *text = rc == 0 ? buf_detach(&b) : NULL;
    buf_clear(&b);
    if (rc < 0)
        return err && err->code == ERR_LIMIT
                   ? error_set(err, ERR_LIMIT,
                               "env: the value of '%.64s', which sounds like "
                               "a secret, has more than %d bytes",
                               p->key, SEAL_TEXT_MAX)
                   : -1;
    if (!text)
        return error_set(err, ERR_NOMEM, "env");
    explicit_bzero(p->value, strlen(p->value));
    free(p->value);
    p->value = text;
    return 0;
}

int seal_env(struct spec_map *env, const char id[SEAL_ID_CAP],
             const unsigned char key[SEAL_KEY_BYTES], struct error *err)
{
    for (size_t i = 0; i < env->n; i++)
        if (schema_is_secret(env->pairs[i].key) &&
            seal_one(&env->pairs[i], id, key, err) < 0)
            return -1;
    return 0;
}

bool seal_find(const struct spec_map *env, char ret_id[SEAL_ID_CAP])
{
    for (size_t i = 0; i < env->n; i++)
        if (seal_is(&env->pairs[i])) {
            take_id(env->pairs[i].value, ret_id);
            return true;
        }
    return false;
}

/* To look for the words costs a hundredth of reading it all. */
bool seal_find_text(const char *spec, char ret_id[SEAL_ID_CAP])
{
    json_t *o = strstr(spec, HEAD) ? json_loads(spec, 0, NULL) : NULL;
    json_t *env = json_object_get(o, "env"), *value;
    const char *name;
    bool found = false;
    json_object_foreach(env, name, value)
    {
        const char *text = json_string_value(value);
        if (found || !text || !schema_is_secret(name) || !body_of(text))
            continue;
        take_id(text, ret_id);
        found = true;
    }
    json_decref(o);
    return found;
}

static int take_one(const struct spec_pair *from, const unsigned char *key,
                    struct spec_pair *ret, struct error *err)
{
    char *name = strdup(from->key), *value = NULL;
    int rc = name ? seal_open(key, from->key, body_of(from->value), &value, err)
                  : error_set(err, ERR_NOMEM, "env");
    if (rc < 0) {
        free(name);
        return -1;
    }
    ret->key = name;
    ret->value = value;
    return 0;
}

int seal_take(const struct spec_map *env,
              const unsigned char key[SEAL_KEY_BYTES], struct spec_map *io,
              struct error *err)
{
    struct spec_map m = {.pairs = calloc(io->n + env->n + 1, sizeof(*m.pairs))};
    int rc = m.pairs ? 0 : error_set(err, ERR_NOMEM, "env");
    for (size_t i = 0; rc == 0 && i < env->n; i++) {
        if (!seal_is(&env->pairs[i]))
            continue;
        rc = take_one(&env->pairs[i], key, &m.pairs[io->n + m.n], err);
        m.n += rc == 0;
    }
    if (rc < 0) {
        for (size_t i = 0; m.pairs && i < m.n; i++) {
            struct spec_pair *p = &m.pairs[io->n + i];
            explicit_bzero(p->value, strlen(p->value));
            free(p->key);
            free(p->value);
        }
        free(m.pairs);
        return -1;
    }
    if (io->n > 0)
        memcpy(m.pairs, io->pairs, io->n * sizeof(*m.pairs));
    free(io->pairs);
    m.n += io->n;
    *io = m;
    return 0;
}

void seal_hex(const unsigned char key[SEAL_KEY_BYTES], char ret[SEAL_HEX_CAP])
{
    for (size_t i = 0; i < SEAL_KEY_BYTES; i++) {
        ret[2 * i] = hex_digits[key[i] >> 4];
        ret[2 * i + 1] = hex_digits[key[i] & 15];
    }
    ret[SEAL_HEX_CAP - 1] = '\0';
}

bool seal_unhex(const char *text, unsigned char ret[SEAL_KEY_BYTES])
{
    if (strspn(text, hex_digits) != SEAL_HEX_CAP - 1 || text[SEAL_HEX_CAP - 1])
        return false;
    for (size_t i = 0; i < SEAL_KEY_BYTES; i++)
        ret[i] =
            (unsigned char)((strchr(hex_digits, text[2 * i]) - hex_digits)
                                << 4 |
                            (strchr(hex_digits, text[2 * i + 1]) - hex_digits));
    return true;
}
