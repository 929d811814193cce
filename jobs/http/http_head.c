/* http_head.c - the head of a request; see http_head.h.
 *
 * evhttp reads more than RFC 9112 allows: of two lengths it takes the first,
 * "Host : x" and a folded line are headers, "+2" is a length, HTTP/0.9 a
 * version. A proxy in front that reads otherwise would see another end of the
 * request, and what follows it would be a request of somebody else. So what
 * servers read in different ways is refused, before evhttp sees its end:
 *
 * - the first line has to be METHOD PATH HTTP/1.0 or 1.1 (RFC 9112, 3);
 * - a header is a token, a colon and a value on one line (5);
 * - one Content-Length, of digits, one Transfer-Encoding, "chunked", and not
 *   both (6.1, 6.3); one Host (3.2);
 * - a \r only before \n, and no other control character but the tab (2.2). */
#include "jobs/http/http_head.h"

#include <string.h>

static const char first_line[] =
    "the first line of the request must be METHOD PATH HTTP/1.1";

static void refuse(struct http_head *h, const char *why)
{
    if (!h->bad)
        h->bad = why;
}

/* RFC 9110, 5.6.2 */
static bool is_token(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static char small(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/* ---- lines that are complete ----------------------------------------------
 */

static void end_first(struct http_head *h)
{
    bool is_version = h->n_value == 8 && memcmp(h->value, "http/1.", 7) == 0 &&
                      (h->value[7] == '0' || h->value[7] == '1');
    if (h->n_spaces < 2 || !is_version)
        refuse(h, first_line);
}

static bool is_named(const struct http_head *h, const char *name)
{
    size_t n = strlen(name);
    return h->n_name == n && memcmp(h->name, name, n) == 0;
}

static void end_header(struct http_head *h)
{
    if (is_named(h, "content-length")) {
        bool is_number = h->n_value > 0 && h->n_value < sizeof(h->value);
        for (size_t i = 0; is_number && i < h->n_value; i++)
            is_number = h->value[i] >= '0' && h->value[i] <= '9';
        if (!is_number)
            refuse(h, "Content-Length must be a number of digits");
        if (h->has_length)
            refuse(h, "the request has two Content-Length");
        h->has_length = true;
    } else if (is_named(h, "transfer-encoding")) {
        if (h->n_value != 7 || memcmp(h->value, "chunked", 7) != 0)
            refuse(h, "Transfer-Encoding must be chunked");
        if (h->has_encoding)
            refuse(h, "the request has two Transfer-Encoding");
        h->has_encoding = true;
    } else if (is_named(h, "host")) {
        if (h->has_host)
            refuse(h, "the request has two Host");
        h->has_host = true;
    }
    if (h->has_length && h->has_encoding)
        refuse(h, "the request has both Content-Length and Transfer-Encoding");
}

static void end_line(struct http_head *h)
{
    if (h->at == HEAD_FIRST)
        end_first(h);
    else if (h->at == HEAD_START)
        h->is_over = true;
    else if (h->at == HEAD_NAME)
        refuse(h, "a header of the request has no colon");
    else
        end_header(h);
    h->at = HEAD_START;
    h->n_spaces = 0;
    h->n_name = h->n_value = h->n_blanks = 0;
}

/* ---- bytes ----------------------------------------------------------------
 */

static void put_value(struct http_head *h, char byte)
{
    if (h->n_value < sizeof(h->value))
        h->value[h->n_value] = small(byte);
    h->n_value++;
}

static void take_first(struct http_head *h, char byte)
{
    if (byte == ' ') {
        h->n_spaces++;
        h->n_value = 0;
    } else {
        put_value(h, byte);
    }
}

static void take_name(struct http_head *h, char byte)
{
    if (h->at == HEAD_START && (byte == ' ' || byte == '\t'))
        refuse(h, "a header of the request is folded");
    h->at = HEAD_NAME;
    if (byte == ':') {
        if (h->n_name == 0)
            refuse(h, "a header of the request has no name");
        h->at = HEAD_VALUE;
        return;
    }
    if (!is_token(byte))
        refuse(h, "the name of a header has a blank or another character that "
                  "no name has");
    if (h->n_name < sizeof(h->name))
        h->name[h->n_name] = small(byte);
    h->n_name++;
}

/* Blanks around a value are none of it; within it they are. */
static void take_value(struct http_head *h, char byte)
{
    if (byte == ' ' || byte == '\t') {
        h->n_blanks += h->n_value > 0;
        return;
    }
    for (; h->n_blanks > 0; h->n_blanks--)
        put_value(h, ' ');
    put_value(h, byte);
}

static void take(struct http_head *h, char byte)
{
    if (h->has_cr && byte != '\n')
        refuse(h,
               "the head of the request has a carriage return within a line");
    h->has_cr = byte == '\r';
    if (byte == '\r')
        return;
    if (byte == '\n') {
        end_line(h);
        return;
    }
    if (((unsigned char)byte < 0x20 && byte != '\t') || byte == 0x7f)
        refuse(h, h->at == HEAD_FIRST
                      ? first_line
                      : "the head of the request has a control character");
    if (h->at == HEAD_FIRST)
        take_first(h, byte);
    else if (h->at == HEAD_VALUE)
        take_value(h, byte);
    else
        take_name(h, byte);
}

void http_head_scan(struct http_head *h, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && !h->is_over; i++) {
        h->n_bytes++;
        take(h, bytes[i]);
    }
}
