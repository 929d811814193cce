/* env_list.h - the environment of a program, built name by name.
 *
 * The first of a name stays. With two, getenv() would take the first, and a
 * shell the last. */
#ifndef MGPU_WORKER_PROCESS_ENV_LIST_H
#define MGPU_WORKER_PROCESS_ENV_LIST_H

#include <stdint.h>

#include "jobs/base/buf.h"

struct env_list {
    struct buf text;   /* "K=V\0K=V\0" */
    struct buf starts; /* size_t offsets */
    char **array;      /* for execve(2), after env_finish() */
};

int env_add(struct env_list *e, const char *key, const char *value,
            struct error *err) MUST_CHECK;
int env_number(struct env_list *e, const char *key, int64_t value,
               struct error *err) MUST_CHECK;
/* Adds a variable of our own environment; one that is not set is left out. */
int env_pass(struct env_list *e, const char *key, struct error *err) MUST_CHECK;
/* All of them whose names begin so. */
int env_pass_all(struct env_list *e, const char *beginning,
                 struct error *err) MUST_CHECK;
/* Sets e->array; nothing may be added afterwards. */
int env_finish(struct env_list *e, struct error *err) MUST_CHECK;
/* Erases the values, which may be secrets, and frees them. */
void env_clear(struct env_list *e);

#endif
