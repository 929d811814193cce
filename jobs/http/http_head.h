/* http_head.h - the head of a request as it arrives: where it ends, and whether
 * two readers could take it for different requests. */
#ifndef MGPU_JOBS_HTTP_HTTP_HEAD_H
#define MGPU_JOBS_HTTP_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_NAME_CAP = 20, HTTP_HEAD_VALUE_CAP = 24 };

/* Zeroed: nothing has come yet. */
struct http_head {
    size_t n_bytes;  /* so far, with the empty line */
    bool is_over;    /* the empty line has come */
    const char *bad; /* why it is refused; static; NULL: it is not */

    /* The part of the line that arrives now. */
    enum { HEAD_FIRST, HEAD_START, HEAD_NAME, HEAD_VALUE } at;
    bool has_cr;                   /* a \r that has to be followed by \n */
    int n_spaces;                  /* of the first line */
    size_t n_name, n_value;        /* the value without blanks around it */
    size_t n_blanks;               /* that may be in the value, or behind it */
    char name[HTTP_HEAD_NAME_CAP]; /* the first bytes, in small letters */
    char value[HTTP_HEAD_VALUE_CAP]; /* the first line: of its last word */

    bool has_length, has_encoding, has_host;
};

/* The next n bytes; those behind the end are not looked at. */
void http_head_scan(struct http_head *h, const char *bytes, size_t n);

#endif
