/* idx.h - the IDX format of MNIST: a big-endian header, then the items.
 *
 *     offset 0  0x00 0x00 type dims    type 0x08: unsigned bytes
 *            4  one u32 per dimension, the number of items first
 *            .  the bytes
 *
 * Plain and gzip files are told apart by their content, not their names. What
 * is not a regular file is refused: a pipe would never end.
 */
#ifndef MGPU_WORKER_DATA_IMAGE_IDX_H
#define MGPU_WORKER_DATA_IMAGE_IDX_H

#include <stdint.h>

#include "jobs/base/error.h"

enum { IDX_DIMS = 4 };

/* Reads the first `items` items (0: all, and nothing may follow them).
 *
 * in   dims     1..IDX_DIMS, what the file must have
 * out  ret_dim  the dimensions in the header; [0] is of the whole file
 *      ret      the items read, from malloc
 * err  ERR_NOTFOUND, ERR_INVAL "file: offset 4: what", ERR_LIMIT more than
 *      2^31 bytes would be read, ERR_NOMEM, ERR_IO
 */
int idx_read(const char *path, int32_t dims, int32_t items,
             int32_t ret_dim[IDX_DIMS], uint8_t **ret,
             struct error *err) MUST_CHECK;

#endif
