/* conf_web.h - who may see the page of the cluster: controller.web_*.
 *
 * mgpu-web --cluster reads these keys. An address that other machines reach
 * needs a token, because nothing else says who asks there; on this machine the
 * loopback address is for everybody, and the mode of a socket says for whom.
 */
#ifndef MGPU_JOBS_CONF_CONF_WEB_H
#define MGPU_JOBS_CONF_CONF_WEB_H

#include <stdbool.h>

#include "jobs/conf/conf.h"

struct schema_from;

/* in   from  by row, where each value is from */
void conf_web_check(const struct conf *c, const struct schema_from *from,
                    struct spec_report *report);

/* Whether HOST of "HOST:PORT" is this machine's loopback: an address of
 * 127.0.0.0/8, "[::1]" or "localhost". */
bool conf_web_is_loopback(const char *host);

#endif
