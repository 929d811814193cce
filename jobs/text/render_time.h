/* render_time.h - a time as text that people read. */
#ifndef MGPU_JOBS_TEXT_RENDER_TIME_H
#define MGPU_JOBS_TEXT_RENDER_TIME_H

#include <stddef.h>

/* Seconds into out, which they return: at most cap - 1 bytes.
 * "0:07", "1:02:03", "2-03:04:05"; "-" for NAN. */
char *render_duration(double s, char *out, size_t cap);
/* "12.3 ms", "1.20 s", "45 us"; "-" for NAN. */
char *render_time(double s, char *out, size_t cap);
/* "~2m", "~1h", "~3d": rounded, because the estimate changes constantly. */
char *render_about(double s, char *out, size_t cap);

#endif
