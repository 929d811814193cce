/* error.h - a failure: its kind, and one sentence for display.
 *
 * Every fallible function in the tree takes a `struct error *err` as its last
 * argument and returns -1 (or NULL) after filling it in. Nothing is allocated,
 * so reporting a failure cannot itself fail. A NULL err is accepted everywhere
 * and means that the caller only needs the return value. */
#ifndef MGPU_BASE_ERROR_H
#define MGPU_BASE_ERROR_H

#ifdef __cplusplus /* for the .cu files */
extern "C" {
#endif

/* X(code, exit status). The exit statuses are part of the command line
 * interface (EXIT STATUS in mgpu-submit(1)): those of sysexits(3) where one
 * fits, so that they do not collide with a job's own 1..63. Never reused. */
#define ERR_CODES(X)                                                \
    X(NONE, 0)      /* success */                                   \
    X(INTERNAL, 70) /* internal error */                            \
    X(USAGE, 64)    /* wrong command line */                        \
    X(INVAL, 65)    /* invalid argument or job specification */     \
    X(NOTFOUND, 66) /* no such object */                            \
    X(UNAVAIL, 69)  /* the daemon or a service cannot be reached */ \
    X(EXTERN, 71)   /* slurm, CUDA, NCCL, MPI or SQLite refused */  \
    X(NOMEM, 71)    /* out of memory */                             \
    X(STATE, 73)    /* not possible in the current state */         \
    X(IO, 74)       /* input or output failed */                    \
    X(BUSY, 75)     /* not possible now, try again later */         \
    X(LIMIT, 75)    /* a configured limit was reached */            \
    X(FENCED, 76)   /* another attempt holds the lease */           \
    X(DENIED, 77)   /* permission denied */                         \
    X(CONFIG, 78)   /* invalid configuration */                     \
    X(TIMEOUT, 124) /* deadline passed */                           \
    X(DEVICE, 71)   /* a GPU has failed */

enum err_code {
#define X(name, status) ERR_##name,
    ERR_CODES(X)
#undef X
};

struct error {
    enum err_code code;
    char msg[240]; /* without a newline; ends in "..." if truncated */
};

#define MUST_CHECK __attribute__((warn_unused_result))

#define ERROR_INIT       \
    {                    \
        .code = ERR_NONE \
    }

/* Fill in err and return -1, so that `return error_set(...)` reads as one
 * step. Leaves errno alone. */
int error_set(struct error *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Like error_set(), from an errno value: chooses the code, appends its text. */
int error_sys(struct error *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "context: " in front of the message already in err. Returns -1. */
int error_wrap(struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same calls, with the -1 visible to compilers and analysers. */
#define error_set(...) (error_set(__VA_ARGS__), -1)
#define error_sys(...) (error_sys(__VA_ARGS__), -1)
#define error_wrap(...) (error_wrap(__VA_ARGS__), -1)

int error_exit_status(enum err_code code);

/* The enumerator's name ("NOTFOUND") and back: messages carry a code by name.
 * An unknown name is ERR_INTERNAL. */
const char *error_word(enum err_code code);
enum err_code error_from_word(const char *word);

#ifdef __cplusplus
}
#endif
#endif
