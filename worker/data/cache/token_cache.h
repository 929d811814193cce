/* token_cache.h - tokenised rows in a file, tokenised once per content by one
 * of all processes that need them, in this job and in others.
 *
 * The file's name is the SHA-256 of all that the tokens follow from: the bytes
 * of the data and of the tokenizer, the keys of the specification, and a
 * version. It is written under another name, renamed, and read by all. The
 * writer holds a lock on a file beside it (token_lock.h); others wait for that
 * lock, in no collective, as long as the writer works, and take over if it
 * dies. A damaged file is written anew, and one that another user may have
 * written is not read (cache_trust.h).
 *
 * The process that makes it uses all processors that the ranks of its node may
 * run on, and little memory: tokens go to the file as they come. Where there is
 * no directory, or no more room, each process tokenises the rows into its own
 * memory, all of them at once.
 */
#ifndef MGPU_WORKER_DATA_CACHE_TOKEN_CACHE_H
#define MGPU_WORKER_DATA_CACHE_TOKEN_CACHE_H

#include "jobs/base/clock.h"
#include "worker/data/text/token_data.h"

/* Less is tokenised sooner than it is hashed and waited for. */
enum { TOKEN_CACHE_MIN_BYTES = 4 << 20 };

struct token_cache_conf {
    const struct token_conf *tokens;
    const char *tokenizer_path; /* template tokens: NULL */
    const char *dir;            /* NULL: none but the one beside the data */
    int64_t min_bytes;          /* of all files together */
    bool yields; /* another is to make it, if both can: one that is heard */
    int32_t threads_alone; /* of this process, where each tokenises; 0: one
                            * for each processor */
    const struct clock *clock;
    /* Prints a line for people; NULL: does not. */
    void (*say)(void *arg, const char *line);
    /* Reports the share that this process, or the one that it waits for, has
     * tokenised; once a second at most, and if it changed. NULL: not
     * reported. */
    void (*tokenised)(void *arg, double share);
    void *arg;
};

/* The tokenizer's file, or directory, of the job; borrowed. NULL: template
 * tokens, which has none. */
const char *token_cache_tokenizer(const struct job_spec *s,
                                  const struct spec_text *text);

/* As token_data_open(), but reads from the cache, and fills it. */
int token_cache_open(const struct token_cache_conf *conf,
                     struct token_data *ret, struct error *err) MUST_CHECK;

/* ".mgpu" beside the first of the files, which is the cache where there is such
 * a directory; the caller frees it. NULL: no memory. */
char *token_cache_beside(const struct data_files *files);

/* $XDG_CACHE_HOME/mgpu, or, where that cannot be made, $HOME/.cache/mgpu. It is
 * made; the caller frees the path. NULL: there is none.
 * in   env  the job's variables, which come before ours */
char *token_cache_dir(const struct spec_map *env);

/* The name that the rows have in the directory, without its ending.
 * err  ERR_NOTFOUND, ERR_IO, ERR_NOMEM, ERR_EXTERN libcrypto refused */
enum { TOKEN_CACHE_KEY_CAP = 65 };
int token_cache_key(const struct token_cache_conf *conf,
                    const struct data_files *files,
                    char ret[TOKEN_CACHE_KEY_CAP],
                    struct error *err) MUST_CHECK;

#endif
