/* notify_target.h - targets of notify: addresses of mails, and URLs.
 *
 * Both kinds of address are the word of a user and end up with another
 * program: in its argv, or in a request. So what is taken is narrow, and the
 * same text means the same thing to everybody who reads it: there is one way
 * to write a host and none to hide one.
 */
#ifndef MGPU_JOBS_SPEC_NOTIFY_TARGET_H
#define MGPU_JOBS_SPEC_NOTIFY_TARGET_H

#include <stdbool.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

enum { HOOK_URL_CAP = 2048, HOOK_HOST_CAP = 256, HOOK_MAIL_CAP = 255 };

/* "alice", "alice@example.org": letters, digits and "._+=-", a letter or digit
 * first, so that it is neither an option nor a pipe nor a file to mail(1).
 * err  ERR_INVAL */
int hook_mail(const char *address, struct error *err) MUST_CHECK;

struct hook {
    bool is_tls;
    char host[HOOK_HOST_CAP]; /* lower case; "[::1]" of an IPv6 address */
    int port;                 /* given, or 80 or 443 */
};
/* "http://HOST[:PORT][/..]" or https, printable ASCII in all, without user,
 * password and fragment.
 * err  ERR_INVAL; the message has nothing of the URL in it but its host, for
 *      the rest may be a secret */
int hook_url(const char *url, struct hook *ret, struct error *err) MUST_CHECK;

#endif
