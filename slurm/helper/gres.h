/* gres.h - GPUs in Slurm's words for generic resources.
 *
 *   gpu:4   gpu:h100:4(S:0-1)   gpu:h100:2(IDX:0,2)   gpu:h100:0(IDX:N/A)
 *   gres:gpu:h100:2             nic:1,gpu:a100:1(IDX:3-3),gpu:h100:2(IDX:0-1)
 *
 * Several are joined by commas, which also occur inside the parentheses.
 * Right after a restart of slurmctld there are no indexes.
 */
#ifndef MGPU_SLURM_HELPER_GRES_H
#define MGPU_SLURM_HELPER_GRES_H

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

/* The GPUs of a node that are of one type. */
struct gres_kind {
    char type[GRES_TYPE_CAP]; /* "" no GPU; "gpu" one without a type */
    int32_t total, used;
};

/* The types of `total` in the order in which it first names them, and how
 * many of each are in `used`. Returns how many types: at least one, and the
 * first GRES_KINDS_MAX of more. */
enum { GRES_KINDS_MAX = 16 };
size_t gres_kinds(const char *total, const char *used,
                  struct gres_kind ret[GRES_KINDS_MAX]);

/* Marks the indexes of a text in at[]; returns how many GPUs it has.
 * in   type  of these only; NULL: of any */
int32_t gres_indexes(const char *text, const char *type,
                     unsigned char at[GRES_GPUS_MAX]);

#endif
