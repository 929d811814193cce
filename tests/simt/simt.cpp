/* simt.cpp - the scheduler of the emulated lanes; see simt.h. */
#include "tests/simt/simt.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
/* ASan wants to be told of every change of stack. */
static void __sanitizer_start_switch_fiber(void **, const void *, size_t)
{
}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *)
{
}
#endif

simt_dim threadIdx, blockIdx, blockDim, gridDim;
bool simt_reverse;
simt_clock simt_now;
void (*simt_on_shared)(const void *p, size_t bytes);
void (*simt_on_launch)(const void *kernel, int64_t grid);

namespace
{

enum {
    MAX_LANES = 256,
    WARP = 32,
    STACK_BYTES = 128 << 10,
    MAX_SHARED = 16,
    MAX_COPIES = 64, /* of a lane, that have not been waited for */
};

enum state { READY, AT_SHUFFLE, AT_BARRIER, DONE };

/* Where a lane or the scheduler continues. */
struct place {
    ucontext_t context;
    jmp_buf left; /* once it has been left */
    bool is_left;
};

struct lane {
    place at_work;
    state at;
    unsigned shuffles; /* how many it has done: the box of the next one */
    simt_meeting for_what;
    /* Two boxes: a lane may leave its next value before its neighbour has
     * read this one, but no earlier than all have left this one. */
    alignas(16) unsigned char box[2][16];
    void *fake; /* ASan's handle for the stack */
    /* Copies beside the work, the oldest first, and the group of each; those
     * before `copied` have happened, early. */
    simt_copy copies[MAX_COPIES];
    unsigned group[MAX_COPIES], n_copies, copied, groups;
};

lane lanes[MAX_LANES];
char *stacks;
place home;
void *home_fake;
const void *home_bottom;
size_t home_bytes;

void (*job)(void *);
void *job_arg;
const void *shared[MAX_SHARED];
unsigned n_shared;
int trapped; /* SIMT_OK, or what a lane has done wrong */

char *stack_of(unsigned i)
{
    return stacks + (size_t)i * STACK_BYTES;
}

/* Leaves one place and continues at the other. swapcontext() sets the signal
 * mask by a system call each time, which takes longer than all else here. ASan
 * needs it: longjmp() makes ASan forget what is poisoned on the stack. */
void leave(place *from, place *to)
{
#if defined(__SANITIZE_ADDRESS__)
    swapcontext(&from->context, &to->context);
#else
    from->is_left = true;
    if (_setjmp(from->left) != 0)
        return;
    if (to->is_left)
        _longjmp(to->left, 1);
    setcontext(&to->context);
    abort();
#endif
}

/* From the scheduler into a lane, and back when the lane parks. */
void resume(unsigned i)
{
    threadIdx.x = i;
    __sanitizer_start_switch_fiber(&home_fake, stack_of(i), STACK_BYTES);
    simt_now.in_lane = true;
    leave(&home, &lanes[i].at_work);
    simt_now.in_lane = false;
    __sanitizer_finish_switch_fiber(home_fake, nullptr, nullptr);
}

void park(state at)
{
    lane *me = &lanes[threadIdx.x];

    me->at = at;
    __sanitizer_start_switch_fiber(&me->fake, home_bottom, home_bytes);
    leave(&me->at_work, &home);
    __sanitizer_finish_switch_fiber(me->fake, nullptr, nullptr);
}

void lane_main()
{
    __sanitizer_finish_switch_fiber(nullptr, &home_bottom, &home_bytes);
    for (;;) { /* once per block */
        job(job_arg);
        if (lanes[threadIdx.x].n_copies > 0)
            simt_trap(SIMT_UNWAITED);
        park(DONE);
    }
}

void prepare(unsigned i)
{
    place *p = &lanes[i].at_work;

    lanes[i].fake = nullptr;
    p->is_left = false;
    getcontext(&p->context);
    p->context.uc_stack.ss_sp = stack_of(i);
    p->context.uc_stack.ss_size = STACK_BYTES;
    p->context.uc_link = nullptr;
    makecontext(&p->context, lane_main, 0);
}

unsigned count(unsigned lo, unsigned hi, state at)
{
    unsigned n = 0;

    for (unsigned i = lo; i < hi; i++)
        n += lanes[i].at == at;
    return n;
}

/* Run one warp until all its lanes are at a barrier or done. */
int run_warp(unsigned lo, unsigned hi)
{
    for (;;) {
        for (unsigned k = lo; k < hi; k++) {
            unsigned i = simt_reverse ? hi - 1 - (k - lo) : k;
            if (lanes[i].at == READY)
                resume(i);
            if (trapped)
                return trapped;
        }
        unsigned waiting = count(lo, hi, AT_SHUFFLE);
        if (waiting == 0)
            return SIMT_OK;
        if (waiting < hi - lo)
            return SIMT_MISSED_SHUFFLE;
        for (unsigned i = lo; i < hi; i++) {
            if (lanes[i].for_what != lanes[lo].for_what)
                return SIMT_MISSED_SHUFFLE;
            lanes[i].at = READY;
        }
    }
}

int run_block(unsigned n)
{
    n_shared = 0;
    simt_now.block = ++simt_now.moment;
    for (unsigned i = 0; i < n; i++) {
        lanes[i].at = READY;
        lanes[i].shuffles = 0;
        lanes[i].n_copies = lanes[i].copied = lanes[i].groups = 0;
    }
    for (;;) {
        for (unsigned k = 0; k < n; k += WARP) {
            unsigned lo = simt_reverse ? n - WARP - k : k;
            int fault = run_warp(lo, lo + WARP);
            if (fault)
                return fault;
        }
        if (count(0, n, DONE) == n)
            return SIMT_OK;
        if (count(0, n, AT_BARRIER) < n)
            return SIMT_MISSED_BARRIER;
        simt_now.moment++;
        for (unsigned i = 0; i < n; i++)
            lanes[i].at = READY;
    }
}

} // namespace

void __syncthreads()
{
    park(AT_BARRIER);
}

/* Leave it for the warp; the box that each has left its own in. */
static unsigned meet(simt_meeting what, const void *mine, size_t bytes)
{
    lane *me = &lanes[threadIdx.x];
    unsigned box = me->shuffles++ % 2;

    if (bytes > sizeof(me->box[0]))
        abort();
    memcpy(me->box[box], mine, bytes);
    me->for_what = what;
    park(AT_SHUFFLE);
    return box;
}

const void *simt_exchange(const void *mine, size_t bytes, unsigned from)
{
    unsigned box = meet(SIMT_SHUFFLE, mine, bytes);

    return lanes[from].box[box];
}

void simt_gather(simt_meeting what, const void *mine, size_t bytes,
                 const void *(&ret)[32])
{
    unsigned first = threadIdx.x / WARP * WARP;
    unsigned box = meet(what, mine, bytes);

    for (unsigned i = 0; i < WARP; i++)
        ret[i] = lanes[first + i].box[box];
}

void simt_trap(int fault)
{
    trapped = fault;
    park(DONE);
}

void simt_copy_later(simt_copy c)
{
    lane *me = &lanes[threadIdx.x];

    if (me->n_copies == MAX_COPIES)
        abort();
    me->copies[me->n_copies] = c;
    me->group[me->n_copies++] = me->groups;
}

void simt_copy_group()
{
    lanes[threadIdx.x].groups++;
}

bool simt_copy_due(int groups, bool all, simt_copy *ret)
{
    lane *me = &lanes[threadIdx.x];

    if (all) {
        if (me->copied == me->n_copies)
            return false;
        *ret = me->copies[me->copied++];
        return true;
    }
    while (me->n_copies > 0 && me->group[0] + (unsigned)groups < me->groups) {
        bool is_new = me->copied == 0;
        *ret = me->copies[0];
        me->n_copies--;
        me->copied -= !is_new;
        memmove(me->copies, me->copies + 1,
                me->n_copies * sizeof(me->copies[0]));
        memmove(me->group, me->group + 1, me->n_copies * sizeof(me->group[0]));
        if (is_new)
            return true;
    }
    return false;
}

void simt_shared(void *p, size_t bytes)
{
    for (unsigned i = 0; i < n_shared; i++)
        if (shared[i] == p)
            return;
    if (n_shared == MAX_SHARED)
        abort();
    shared[n_shared++] = p;
    if (simt_on_shared)
        simt_on_shared(p, bytes);
    memset(p, 0xff, bytes);
}

int simt_run(unsigned grid, unsigned n, void (*lane)(void *), void *arg)
{
    if (grid < 1 || n < WARP || n > MAX_LANES || n % WARP != 0)
        return SIMT_BAD_LAUNCH;
    if (!stacks) {
        stacks = static_cast<char *>(malloc((size_t)STACK_BYTES * MAX_LANES));
        if (!stacks)
            abort();
        for (unsigned i = 0; i < MAX_LANES; i++)
            prepare(i);
    }
    job = lane;
    job_arg = arg;
    gridDim.x = grid;
    blockDim.x = n;
    simt_now.launch = simt_now.moment + 1;
    simt_now.stacks = stacks;
    simt_now.stack_bytes = (size_t)STACK_BYTES * MAX_LANES;
    int fault = trapped = SIMT_OK;
    for (unsigned i = 0; i < grid && !fault; i++) {
        blockIdx.x = i;
        fault = run_block(n);
    }
    if (fault) { /* lanes are parked in the middle: give up their stacks */
        free(stacks);
        stacks = nullptr;
    }
    return fault;
}
