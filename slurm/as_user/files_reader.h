/* files_reader.h - the process that reads one user's files for
 * files_serve.c: it becomes the user for good before it looks at any path. */
#ifndef MGPU_SLURM_AS_USER_FILES_READER_H
#define MGPU_SLURM_AS_USER_FILES_READER_H

#include <stdbool.h>
#include <sys/types.h>

/* A packet in, a packet out, until the socket closes. Never returns.
 *
 * in   fd      its end of a SOCK_SEQPACKET pair
 *      become  take on uid's identity; else it has that already */
_Noreturn void files_reader(int fd, uid_t uid, bool become);

#endif
