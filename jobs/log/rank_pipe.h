/* rank_pipe.h - the named pipe in the attempt's directory that carries a rank's
 * output to the log; slurm/launch/rank_output.h has the reading end. */
#ifndef MGPU_JOBS_LOG_RANK_PIPE_H
#define MGPU_JOBS_LOG_RANK_PIPE_H

#include <stdint.h>

enum { RANK_PIPE_CAP = 24 };

void rank_pipe_name(int32_t rank, char ret[RANK_PIPE_CAP]); /* "out.3" */

/* Called in a rank, before it prints anything: makes its pipe its standard
 * output and error. If no process on this machine reads such a pipe, they
 * remain the launcher's.
 * in  launch  DIR/launch.json */
void rank_pipe_join(const char *launch);

#endif
