/* token_data.h - the rows of a data set as token ids and labels.
 *
 * Templates of messages (messages.h): a row becomes tokens as chat_format.h
 * says. A row longer than max_seq_len is cut. Template preference makes two
 * rows of each: with the answer that was chosen, and with the other.
 *
 * Template completion: {"text"}; all of its tokens count. Template
 * prompt_completion: prompt_completion.h.
 *
 * Template tokens: {"input_ids", "labels"} as they are, labels as Hugging Face
 * has them: label i belongs to id i, a negative one is none. Without
 * labels all tokens have one. A row longer than max_seq_len is cut.
 *
 * The first token of a row never has a label: no token is before it that
 * could predict it.
 *
 * A row that is read but not within `split` has tokens and no place in the
 * list.
 */
#ifndef MGPU_WORKER_DATA_TEXT_TOKEN_DATA_H
#define MGPU_WORKER_DATA_TEXT_TOKEN_DATA_H

#include <sched.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/http/digest_ssl.h"
#include "jobs/spec/spec.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/rows/data_rows.h"
#include "worker/data/text/token_list.h"
#include "worker/data/tokenizer/tokenizer.h"

struct token_row {
    size_t first; /* of its tokens */
    int32_t n;
    int32_t labelled;
    struct row_place place;
    int32_t lost; /* as token_cut() */
};

struct token_kept {
    int fd;          /* owned */
    char *path;      /* owned */
    int64_t base;    /* of the first id in it */
    uint64_t values; /* ids, and behind them as many labels */
};

struct token_data {
    struct token_list ids;
    struct token_list labels; /* of the same tokens; < 0: none */
    struct buf list;          /* of struct token_row */
    int32_t n;                /* rows, 1 or more; of pairs: 2 of each */
    int32_t longest;          /* tokens of a row */
    int32_t most;             /* the highest id, of labels as well */
    int32_t cut;              /* rows that were longer than max_seq_len */
    int64_t tokens;           /* of all rows */
    int64_t labelled;         /* of these */
    int64_t lost;             /* labelled tokens of rows that were cut */
    bool no_room; /* for the tokens, in the files they were to go to */
    struct data_files files;
    struct rows_skipped skipped;
    struct row_keys unread; /* of messages, in all rows that were read */
    /* In place of the lists of ids and labels: a file (token_file.h), which
     * others may write to while it is read. */
    bool is_kept;
    struct token_kept kept;
};

/* Files that tokens go to while rows are read, so that memory holds few of
 * them: ids to `path`, and labels beside it. */
struct token_spill {
    const char *path;
    int64_t base; /* of the first id in the file */
    size_t bytes; /* of ids, and as many of labels, that memory may hold */
    /* There is no room for them, or no file: all tokens are in memory, and
     * stay there. */
    void (*no_room)(void *arg, const struct error *why);
    void *arg;
};

struct token_conf {
    const struct spec_text *text;
    const struct spec_map *columns;    /* NULL: none has another name */
    const char *system_prompt;         /* NULL: that of the row */
    const struct tokenizer *tokenizer; /* template tokens: NULL */
    enum spec_prompt prompt;           /* not PROMPT_AUTO */
    bool is_whole;                     /* see struct chat_format */
    bool is_unknown;                   /* likewise */
    int32_t eos;              /* ends an answer; -1: that of the tokenizer */
    struct chat_text_end end; /* behind a completion; none: eos */
    int32_t max_seq_len;      /* 0: as long as rows are */
    int32_t threads;          /* that tokenise; 0: one for each processor */
    const cpu_set_t *cpus;    /* these run on; NULL: those of this process */
    const struct token_spill *spill; /* NULL: all tokens are in memory */
    /* Two rows of each: its chosen answer, and then its rejected one. Otherwise
     * template preference makes a row of the chosen one. */
    bool pairs;
    /* Called after each row that is read; NULL: not called.
     * in  bytes  of the files, packed if they are, that have been read */
    void (*progress)(void *arg, int64_t bytes, int64_t rows);
    void *arg;
};

/* A conf as the job's keys say, without progress; all is borrowed.
 * in   text       train.dataset or train.dataset_val
 *      tokenizer  template tokens: NULL
 * err  as chat_template_choose() */
int token_conf_of(const struct job_spec *s, const struct spec_text *text,
                  const struct tokenizer *tokenizer, int32_t eos,
                  struct token_conf *ret, struct error *err) MUST_CHECK;

/* out  ret  end it with token_data_clear()
 * err  ERR_INVAL "file: row 17: line 20: what is wrong": not such a row, one
 *      that has no labelled token, one that is longer than max_seq_len where
 *      rows are packed; on_bad_row skip leaves such a row out, but not more
 *      than half of all. No rows, fewer than `samples`; packed without
 * max_seq_len; a tokenizer without an end of text. ERR_LIMIT 2 GiB or more;
 * ERR_NOTFOUND, ERR_IO, ERR_NOMEM */
int token_data_open(const struct token_conf *conf, struct token_data *ret,
                    struct error *err) MUST_CHECK;
void token_data_clear(struct token_data *d); /* NULL and zeroed are fine */

/* Ids and labels that are in files are in memory again, where the functions
 * below find them.
 * err  ERR_NOMEM, ERR_IO */
int token_data_recall(struct token_data *d, struct error *err) MUST_CHECK;

/* Valid until token_data_clear(). */
const struct token_row *token_data_rows(const struct token_data *d); /* [n] */
/* For data that is in memory, not in a file. */
const int32_t *token_data_ids(const struct token_data *d);
const int32_t *token_data_labels(const struct token_data *d);

/* Copies n ids and labels from token `first` on. What comes from a file is
 * within the bounds of d, or refused.
 * out  ids, labels  [n]
 * err  ERR_IO the file is shorter now, or has other tokens */
int token_data_read(const struct token_data *d, size_t first, size_t n,
                    int32_t *ids, int32_t *labels,
                    struct error *err) MUST_CHECK;

/* The tokens of rows one after the other, a few thousand of them at once. */
struct token_window {
    struct buf ids, labels; /* of tokens [first, first + n) */
    size_t first, n;
};
void token_window_clear(struct token_window *w); /* zeroed is fine */

/* The tokens of a row.
 * inout  w           zeroed before the first
 * out    ret_ids, ret_labels  [rows[i].n]; valid until the next call
 * err    as token_data_read(); ERR_NOMEM */
int token_data_row(const struct token_data *d, int32_t i,
                   struct token_window *w, const int32_t **ret_ids,
                   const int32_t **ret_labels, struct error *err) MUST_CHECK;

/* All ids and labels are below vocab.
 * err  ERR_INVAL "path: row 17: ..." of the first row that has another; as
 *      token_data_row() */
int token_data_check(const struct token_data *d, int32_t vocab,
                     struct error *err) MUST_CHECK;

/* The same for the same tokens, labels and rows.
 * err  as token_data_row() */
int token_data_digest(const struct token_data *d, uint64_t *ret,
                      struct error *err) MUST_CHECK;
/* The same, for uses that tell data apart by it alone.
 * err  ERR_EXTERN; as token_data_row() */
int token_data_sha256(const struct token_data *d, char ret[DIGEST_HEX_CAP],
                      struct error *err) MUST_CHECK;

#endif
