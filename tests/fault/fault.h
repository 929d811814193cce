/* fault.h - how a test tells inject.so, inside another program, what fails.
 *
 * The test maps a file that holds one struct fault_control, and names it in
 * FAULT_FILE when it starts the program with LD_PRELOAD=inject.so. Both see
 * each other's writes from then on, so that one daemon takes many faults.
 */
#ifndef MGPU_TESTS_FAULT_FAULT_H
#define MGPU_TESTS_FAULT_FAULT_H

#include <stdatomic.h>
#include <stdint.h>

#define FAULT_FILE "MGPU_FAULT_FILE"

/* What fails together: calls that a program makes for one purpose. */
enum fault_class {
    FAULT_NONE,
    FAULT_OPEN,   /* open and its kin, opendir, fopen */
    FAULT_FD,     /* whatever else makes a descriptor */
    FAULT_READ,   /* read, pread; but for EINTR of files alone */
    FAULT_WRITE,  /* write, pwrite; but for EINTR of files alone */
    FAULT_SYNC,   /* fsync, fdatasync */
    FAULT_NAME,   /* rename, unlink, mkdir, rmdir */
    FAULT_SIZE,   /* ftruncate */
    FAULT_STAT,   /* stat and its kin, access, chmod, readlink, fstatfs */
    FAULT_FCNTL,  /* locks above all */
    FAULT_CLOSE,  /* it is closed, and fails nevertheless */
    FAULT_ACCEPT, /* accept, accept4 */
    FAULT_SOCKET, /* bind, listen, connect, options and names of a socket */
    FAULT_TALK,   /* send, recv and their kin; readv, writev */
    FAULT_POLL,   /* poll, select, epoll_wait */
    FAULT_EPOLL,  /* epoll_ctl */
    FAULT_SPAWN,  /* fork, posix_spawn, pthread_create */
    FAULT_WAIT,   /* waitpid, waitid */
    FAULT_SIGNAL, /* kill, pidfd_send_signal */
    FAULT_MAP,    /* mmap, mremap */
    FAULT_RANDOM, /* getrandom */
    FAULT_MEMORY, /* malloc, calloc, realloc: of libraries and libc, too */
    FAULT_N
};

/* Memory is asked for a hundred thousand times where few places ask: a place
 * is the call with those that led to it, this many of them. */
enum { FAULT_DEPTH = 16, FAULT_PLACES = 1 << 15 };

/* Instead of an errno: the call moves a part of what it was asked to. */
enum { FAULT_SHORT = 0 };

struct fault_control {
    _Atomic int32_t cls;   /* enum fault_class; FAULT_NONE: nothing fails */
    _Atomic int32_t code;  /* errno or FAULT_SHORT */
    _Atomic int64_t first; /* the first call that fails, from 1; 0: the first
                              from a place where none has failed yet */
    _Atomic int64_t times; /* how many fail from there on */
    _Atomic int64_t seen;  /* calls of that class so far */
    _Atomic int64_t struck;
    _Atomic int64_t excused; /* should have failed, and may not: inject.c */
    char where[96]; /* the first that failed: "read in mgpu-ctld+0x1b2c" */
    _Atomic uint64_t places[FAULT_PLACES]; /* that failed; 0: none */
};

#endif
