/* ca_ssl.h - a file of certificates of authorities that a site trusts. */
#ifndef MGPU_JOBS_HTTP_CA_SSL_H
#define MGPU_JOBS_HTTP_CA_SSL_H

#include "jobs/base/error.h"

/* Whether it can vouch for servers: a plain file, nobody's but root's or our
 * user's to write, of one PEM certificate or more, and none that is damaged.
 *
 * err  ERR_CONFIG, with its name and why not */
int ca_check(const char *path, struct error *err) MUST_CHECK;

#endif
