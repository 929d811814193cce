/* slurm_text.h - parse what Slurm's commands print in a column. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_SLURM_TEXT_H
#define MGPU_SCHEDULER_SIM_TRACE_SLURM_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether it stands for a time or a duration that Slurm does not know. */
bool slurm_text_is_unknown(const char *s);

/* "2026-11-01T08:00:00" in the zone of TZ, as seconds since 1970; of an hour
 * that comes twice in autumn the first one. False: it is another text. */
bool slurm_text_time(const char *s, double *ret);

/* "[DAYS-]HH:MM:SS" or "MM:SS", with or without ".123" behind it, in seconds.
 * False: it is another text. */
bool slurm_text_span(const char *s, double *ret);

/* The value of a resource in "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4": the
 * total, or the sum over its types where there is no total; 0 where there is
 * neither. False: it is no number, or over `most`. */
bool slurm_text_tres(const char *list, const char *key, int32_t most,
                     int32_t *ret);

#endif
