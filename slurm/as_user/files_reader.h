/* files_reader.h - the process that reads one user's files for files_serve.c:
 * it permanently becomes the user before it opens any path. */
#ifndef MGPU_SLURM_AS_USER_FILES_READER_H
#define MGPU_SLURM_AS_USER_FILES_READER_H

#include <stdbool.h>
#include <sys/types.h>

/* Receives a packet, sends a packet, until the socket closes. Never returns.
 *
 * in   fd      its end of a SOCK_SEQPACKET pair
 *      become  change to uid's identity; else the process already has it */
_Noreturn void files_reader(int fd, uid_t uid, bool become);

#endif
