/* gres.h - parser for the GPUs in Slurm's generic-resource strings.
 *
 *   gpu:4   gpu:h100:4(S:0-1)   gpu:h100:2(IDX:0,2)   gpu:h100:0(IDX:N/A)
 *   gres:gpu:h100:2             nic:1,gpu:a100:1(IDX:3-3),gpu:h100:2(IDX:0-1)
 *
 * Several are joined by commas, which also occur inside the parentheses. Right
 * after a restart of slurmctld the indexes are missing. */
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

/* Parses the next GPUs of *text and moves *text past them; skips other
 * resources and what it cannot parse. false: no more. NULL is "". */
bool gres_next(const char **text, struct gres_gpu *ret);

/* The GPUs of a node that are of one type. */
struct gres_kind {
    char type[GRES_TYPE_CAP]; /* "" no GPU; "gpu" one without a type */
    int32_t total, used;
};

/* The types of `total` in the order of first occurrence, and how many of each
 * are in `used`. Returns the number of types: at least one, at most
 * GRES_KINDS_MAX; further types are dropped. */
enum { GRES_KINDS_MAX = 16 };
size_t gres_kinds(const char *total, const char *used,
                  struct gres_kind ret[GRES_KINDS_MAX]);

/* Marks the indexes of a text in at[]; returns how many GPUs it has.
 * in   type  only of this type; NULL: of any */
int32_t gres_indexes(const char *text, const char *type,
                     unsigned char at[GRES_GPUS_MAX]);

#endif
