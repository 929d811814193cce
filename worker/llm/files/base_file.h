/* base_file.h - read a file of a model's directory that is to be copied.
 *
 * A cache of huggingface_hub has links: snapshots/REVISION/config.json leads to
 * blobs/SHA beside snapshots. The owner of a model's directory could also link
 * to a file that only this user may read, and get it with what this user
 * writes. So a file must be in the directory or in the blobs of its cache;
 * elsewhere it, and the links to it, must be this user's or root's. */
#ifndef MGPU_WORKER_LLM_FILES_BASE_FILE_H
#define MGPU_WORKER_LLM_FILES_BASE_FILE_H

#include "jobs/base/buf.h"

/* in   name  below the directory
 * out  ret   the bytes are appended
 * err  ERR_NOTFOUND; ERR_DENIED a link of another user leads out of the
 *      directory; as buf_read_file() */
int base_file_read(const char *dir, const char *name, size_t max,
                   struct buf *ret, struct error *err) MUST_CHECK;

#endif
