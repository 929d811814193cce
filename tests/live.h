/* live.h - how much of the heap is in use, to the byte.
 *
 * What the allocator keeps for itself or for a thread does not count, and
 * neither do the page caches of SQLite: they fill up to their bound, at a time
 * that depends on who reads what.
 */
#ifndef MGPU_TESTS_LIVE_H
#define MGPU_TESTS_LIVE_H

#include <malloc.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sanitizers have an allocator of their own, which keeps what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIVE_IS_KNOWN 0
#else
#define LIVE_IS_KNOWN 1
#endif

enum { LIVE_CHUNK = sizeof(size_t) }; /* what malloc() adds to a block */
static _Atomic size_t live_in_sqlite;

static inline size_t live_size(void *p)
{
    return malloc_usable_size(p) + LIVE_CHUNK;
}

static inline void *live_malloc(int n)
{
    void *p = malloc((size_t)n);
    if (p)
        live_in_sqlite += live_size(p);
    return p;
}

static inline void live_free(void *p)
{
    live_in_sqlite -= live_size(p);
    free(p);
}

static inline void *live_realloc(void *old, int n)
{
    size_t had = live_size(old);
    void *p = realloc(old, (size_t)n);
    if (p)
        live_in_sqlite += live_size(p) - had;
    return p;
}

static inline int live_usable(void *p)
{
    return (int)malloc_usable_size(p);
}

static inline int live_round(int n)
{
    return (n + 7) & ~7;
}

static inline int live_init(void *arg)
{
    (void)arg;
    return SQLITE_OK;
}

static inline void live_shutdown(void *arg)
{
    (void)arg;
}

/* To be called first of all: the program begins anew, without what glibc
 * keeps for each thread, which it counts as in use. */
static inline void live_begin(char **argv)
{
    static const char tunables[] = "glibc.malloc.tcache_count=0";
    static const sqlite3_mem_methods counting = {
        live_malloc, live_free, live_realloc,  live_usable,
        live_round,  live_init, live_shutdown, NULL};
    const char *are = getenv("GLIBC_TUNABLES");
    if (!are || strcmp(are, tunables) != 0) {
        (void)setenv("GLIBC_TUNABLES", tunables, 1);
        (void)execv("/proc/self/exe", argv);
    }
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &counting) != SQLITE_OK)
        abort();
}

static inline size_t live_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd - live_in_sqlite;
}

#endif
