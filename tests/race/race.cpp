/* race.cpp - what -fsanitize=thread calls for each access; see race.h.
 *
 * Each byte that a kernel touches has a cell that knows its last write and its
 * reads. Cells of an earlier launch are out of date and need no clearing:
 * moments are never used twice. */
#include "tests/race/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simt/simt.h"

namespace
{

/* A moment and the lane, in one word; 0: never. */
enum { LANE_BITS = 9 };
typedef uint64_t stamp;

struct cell {
    stamp write, read; /* the last ones */
    uint64_t first;    /* moment of the first read of this launch */
    bool many;         /* another lane has read at the moment of `read`, too */
    const char *write_pc, *read_pc;
};

enum { PAGE_BITS = 8, PAGE_BYTES = 1 << PAGE_BITS, SLOT_BITS = 18 };
struct page {
    uintptr_t key; /* address >> PAGE_BITS */
    cell cells[PAGE_BYTES];
};
page *slots[1 << SLOT_BITS];
unsigned pages;
page *latest;
uint64_t launch; /* of the last access */

/* So many pages are kept for the next launch; they take 0.8 GB. */
enum { KEPT_PAGES = 1 << 16 };

struct race_count seen;
struct {
    const char *a, *b;
} pairs[256];
unsigned n_pairs;

page *page_of(uintptr_t address)
{
    uintptr_t key = address >> PAGE_BITS;

    if (latest && latest->key == key)
        return latest;
    uintptr_t h = (key * 0x9E3779B97F4A7C15u) >> (64 - SLOT_BITS);
    while (slots[h] && slots[h]->key != key)
        h = (h + 1) % (1 << SLOT_BITS);
    if (!slots[h]) {
        if (++pages > (1 << SLOT_BITS) * 3 / 4)
            abort();
        slots[h] = static_cast<page *>(calloc(1, sizeof(page)));
        if (!slots[h])
            abort();
        slots[h]->key = key;
    }
    return latest = slots[h];
}

/* All cells are out of date when a launch begins. */
void forget_pages()
{
    for (page *&p : slots) {
        free(p);
        p = nullptr;
    }
    pages = 0;
    latest = nullptr;
}

uint64_t moment_of(stamp s)
{
    return s >> LANE_BITS;
}

unsigned lane_of(stamp s)
{
    return (unsigned)(s & ((1 << LANE_BITS) - 1));
}

/* Of an address in the code: function, file and line. */
void place_of(const char *pc, char *ret, size_t size)
{
    char call[120], exe[256];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    (void)snprintf(ret, size, "%p", (const void *)pc);
    if (n <= 0)
        return;
    exe[n] = '\0';
    (void)snprintf(call, sizeof(call), "addr2line -Cpe '%.60s' %p 2>/dev/null",
                   exe, (const void *)(pc - 1));
    FILE *f = n > 60 ? nullptr : popen(call, "r");
    if (f) {
        if (fgets(ret, (int)size, f))
            ret[strcspn(ret, "\n")] = '\0';
        (void)pclose(f);
    }
}

void report(const char *what, uintptr_t at, const char *pc, const char *other,
            stamp by)
{
    char here[200], there[200];

    for (unsigned i = 0; i < n_pairs; i++)
        if (pairs[i].a == pc && pairs[i].b == other)
            return;
    if (n_pairs == sizeof(pairs) / sizeof(pairs[0]))
        return;
    pairs[n_pairs].a = pc;
    pairs[n_pairs++].b = other;
    if (seen.races++ > 0)
        return;
    place_of(pc, here, sizeof(here));
    place_of(other, there, sizeof(there));
    (void)snprintf(
        seen.first, sizeof(seen.first),
        "%s of %#lx: lane %u of block %u at %s, and lane %u of %s at %s", what,
        (unsigned long)at, threadIdx.x, blockIdx.x, here, lane_of(by),
        moment_of(by) < simt_now.block ? "an earlier block" : "this block",
        there);
}

/* Whether what happened at s may happen at the same time as what this lane
 * does now. */
bool is_beside(stamp s, unsigned lane)
{
    uint64_t m = moment_of(s);

    return m >= simt_now.launch &&
           (m < simt_now.block || (m == simt_now.moment && lane_of(s) != lane));
}

void touch_byte(cell *c, uintptr_t at, bool writes, const char *pc)
{
    const unsigned lane = threadIdx.x;
    const stamp now = simt_now.moment << LANE_BITS | lane;

    if (is_beside(c->write, lane))
        report(writes ? "two writes" : "a read after a write", at, pc,
               c->write_pc, c->write);
    if (!writes) {
        if (c->first < simt_now.launch)
            c->first = simt_now.moment;
        c->many = moment_of(c->read) == simt_now.moment &&
                  (c->many || lane_of(c->read) != lane);
        c->read = now;
        c->read_pc = pc;
        return;
    }
    const bool other_block =
        c->first >= simt_now.launch && c->first < simt_now.block;
    if (other_block || is_beside(c->read, lane) ||
        (c->many && moment_of(c->read) == simt_now.moment))
        report("a write after a read", at, pc, c->read_pc, c->read);
    c->write = now;
    c->write_pc = pc;
}

void touch(const void *p, size_t n, bool writes, const void *pc)
{
    const uintptr_t at = (uintptr_t)p;

    if (!simt_now.in_lane ||
        at - (uintptr_t)simt_now.stacks < simt_now.stack_bytes)
        return;
    if (simt_now.launch != launch && pages > KEPT_PAGES)
        forget_pages();
    launch = simt_now.launch;
    seen.accesses++;
    for (uintptr_t a = at; a < at + n; a++)
        touch_byte(&page_of(a)->cells[a % PAGE_BYTES], a, writes,
                   static_cast<const char *>(pc));
}

/* Each block has its own. */
void on_shared(const void *p, size_t bytes)
{
    const uintptr_t at = (uintptr_t)p;

    for (uintptr_t a = at; a < at + bytes; a++)
        memset(&page_of(a)->cells[a % PAGE_BYTES], 0, sizeof(cell));
}

} // namespace

void race_take(struct race_count *ret)
{
    *ret = seen;
    seen = race_count();
    n_pairs = 0;
}

/* ---- what the compiler calls ------------------------------------------- */
#define HERE __builtin_return_address(0)
#define ACCESS(n)                           \
    void __tsan_read##n(void *p)            \
    {                                       \
        touch(p, n, false, HERE);           \
    }                                       \
    void __tsan_write##n(void *p)           \
    {                                       \
        touch(p, n, true, HERE);            \
    }                                       \
    void __tsan_unaligned_read##n(void *p)  \
    {                                       \
        touch(p, n, false, HERE);           \
    }                                       \
    void __tsan_unaligned_write##n(void *p) \
    {                                       \
        touch(p, n, true, HERE);            \
    }
extern "C" {
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *p, size_t n)
{
    touch(p, n, false, HERE);
}
void __tsan_write_range(void *p, size_t n)
{
    touch(p, n, true, HERE);
}
/* clang's */
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    touch(from, n, false, HERE);
    touch(to, n, true, HERE);
    return memcpy(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, size_t n)
{
    touch(from, n, false, HERE);
    touch(to, n, true, HERE);
    return memmove(to, from, n);
}
void *__tsan_memset(void *to, int byte, size_t n)
{
    touch(to, n, true, HERE);
    return memset(to, byte, n);
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
void __tsan_init()
{
    simt_on_shared = on_shared;
}
}
