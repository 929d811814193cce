/* rank_pipe.h - the pipe with a name through which a rank's output reaches the
 * log, in the attempt's directory; slurm/launch/rank_output.h has the reading
 * end. */
#ifndef MGPU_JOBS_LOG_RANK_PIPE_H
#define MGPU_JOBS_LOG_RANK_PIPE_H

#include <stdint.h>

enum { RANK_PIPE_CAP = 24 };

void rank_pipe_name(int32_t rank, char ret[RANK_PIPE_CAP]); /* "out.3" */

/* In a rank, before it prints anything: its standard output and error become
 * its pipe. Where it has none that is being read on this machine, they stay
 * the launcher's.
 * in  launch  DIR/launch.json */
void rank_pipe_join(const char *launch);

#endif
