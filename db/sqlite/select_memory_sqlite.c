/* select_memory_sqlite.c - what a SELECT may have of the daemon's memory.
 *
 * A statement of a kilobyte may name a table a million times, by WITH clauses
 * that each name the one before twice, and SQLite writes all of that down
 * before anybody is asked: gigabytes. Rows that are sorted go to memory too
 * (PRAGMA temp_store), as a disk that is full is everybody's. SQLite's own
 * limits of memory are the process's, and the daemon's writer would meet them;
 * so its allocator is wrapped, and counts for a thread that wants it to.
 */
#include <pthread.h>

#include "db/sqlite/select_sqlite.h"

static sqlite3_mem_methods real;
static bool is_wrapped;

static _Thread_local struct {
    bool is_on, is_out;
    int64_t left; /* less what was there before is given back */
} mine;

static bool take(int64_t n)
{
    if (!mine.is_on || n <= mine.left)
        return true;
    mine.is_out = true;
    return false;
}

static void count(int64_t n)
{
    if (mine.is_on)
        mine.left -= n;
}

static void *on_malloc(int n)
{
    void *p = take(n) ? real.xMalloc(n) : NULL;
    if (p)
        count(real.xSize(p));
    return p;
}

static void on_free(void *p)
{
    count(-(int64_t)real.xSize(p));
    real.xFree(p);
}

static void *on_realloc(void *p, int n)
{
    int was = real.xSize(p);
    void *q = take((int64_t)n - was) ? real.xRealloc(p, n) : NULL;
    if (q)
        count((int64_t)real.xSize(q) - was);
    return q;
}

static void wrap(void)
{
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
        return;
    sqlite3_mem_methods ours = real;
    ours.xMalloc = on_malloc;
    ours.xFree = on_free;
    ours.xRealloc = on_realloc;
    is_wrapped = sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) == SQLITE_OK;
}

void select_memory_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, wrap);
}

int select_memory_begin(int64_t most, struct error *err)
{
    select_memory_init();
    if (!is_wrapped)
        return error_set(err, ERR_INTERNAL,
                         "SQLite was in use before its memory was bounded");
    mine.is_on = true;
    mine.is_out = false;
    mine.left = most;
    return 0;
}

void select_memory_end(void)
{
    mine.is_on = false;
}

bool select_memory_is_out(void)
{
    return mine.is_out;
}
