/* gres.h - GPUs in Slurm's words for generic resources.
 *
 *   gpu:4   gpu:h100:4(S:0-1)   gpu:h100:2(IDX:0,2)   gpu:h100:0(IDX:N/A)
 *   gres:gpu:h100:2             nic:1,gpu:a100:1(IDX:3-3),gpu:h100:2(IDX:0-1)
 *
 * Several are joined by commas, which also occur inside the parentheses.
 * Right after a restart of slurmctld there are no indexes.
 */
#ifndef MGPU_SLURM_GRES_H
#define MGPU_SLURM_GRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRES_TYPE_CAP = 32, GRES_GPUS_MAX = 1024 };

struct gres_gpu {
    char type[GRES_TYPE_CAP]; /* "" when it has none */
    int32_t n;
    bool has_indexes;
    unsigned char at[GRES_GPUS_MAX]; /* 1: this index; if has_indexes */
};

/* The next GPUs of *text, which moves on behind them; other resources and
 * what cannot be read are passed over. false: that was all. NULL is "". */
bool gres_next(const char **text, struct gres_gpu *ret);

/* The type that most GPUs of `total` have and how many of it there are, and
 * how many of them are in `used`. A node with several types is one of its
 * main type for us.
 * out  type  "" no GPU; "gpu" one without a type */
void gres_main(const char *total, const char *used, char type[GRES_TYPE_CAP],
               int32_t *ret_total, int32_t *ret_used);

/* The GPUs of a node that are not of this type, "4 a100, 2 t4"; "" none. */
void gres_others(const char *total, const char *type, char *ret, size_t cap);

#endif
