/* web_files.h - the files of the page, which are part of the program. */
#ifndef MGPU_SCHEDULER_WEB_WEB_FILES_H
#define MGPU_SCHEDULER_WEB_WEB_FILES_H

#include <stddef.h>

#include "jobs/base/error.h"

enum { WEB_ETAG_CAP = 40 };

struct web_file {
    const char *name; /* "app.js", "compare/axes.js" */
    const char *data, *end;
};

/* in  name    of a file, or of its folder
 *     within  of the file in that folder; NULL: name is the file's
 * ret  NULL: there is none of that name. */
const struct web_file *web_files_find(const char *name, const char *within);
/* By the end of the name: "text/html; charset=utf-8". */
const char *web_files_type(const struct web_file *f);
/* Half of the SHA-256 of the content, in quotes. err  ERR_EXTERN libcrypto */
int web_files_etag(const struct web_file *f, char ret[WEB_ETAG_CAP],
                   struct error *err) MUST_CHECK;

#endif
