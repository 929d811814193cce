/* nvml.h - list and watch this machine's GPUs through NVIDIA's NVML. */
#ifndef MGPU_SLURM_LOCAL_NVML_H
#define MGPU_SLURM_LOCAL_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct nvml_gpu {
    char uuid[96]; /* "GPU-8f1c...": a value for CUDA_VISIBLE_DEVICES */
    char name[96]; /* "NVIDIA H100 80GB HBM3" */
    char type[32]; /* "h100" */
    char bus[32];  /* "00000000:18:00.0" */
    int64_t bytes; /* of its memory; 0: unknown */
    bool is_lost;  /* it has fallen off the bus until the next reboot: the
                    * other fields are unknown */
};

/* The GPUs in the order of their PCI addresses, as CUDA_DEVICE_ORDER=PCI_BUS_ID
 * numbers them; lost ones at the driver's index.
 *
 * in   library  NULL: libnvidia-ml.so.1
 * out  gpus[cap], *ret_n
 * err  ERR_NOTFOUND there is no such library: a machine without a driver;
 *      ERR_EXTERN the driver does not answer;  ERR_LIMIT more than cap */
int nvml_list(const char *library, struct nvml_gpu *gpus, size_t cap,
              size_t *ret_n, struct error *err) MUST_CHECK;

/* ---- watching --------------------------------------------------------------
 */
struct nvml_watch; /* opaque; used by one thread */

enum { NVML_WHY_CAP = 64 };

/* Which of a GPU's initial error counts make it fail. */
enum nvml_judge {
    NVML_STRICT, /* memory errors since its last reset */
    NVML_AS_IS,  /* none: an administrator has examined it. New errors count */
};

/* Keeps the library open until nvml_watch_close().
 * in   library  as above
 *      uuids    [n] of the GPUs, in the order of their numbers; "" none: one
 *               that was lost before
 * err  ERR_NOTFOUND no library; ERR_EXTERN the driver does not answer, or is
 *      too old; ERR_NOMEM */
int nvml_watch_open(const char *library, const char *const *uuids, size_t n,
                    enum nvml_judge judge, struct nvml_watch **ret,
                    struct error *err) MUST_CHECK;
void nvml_watch_close(struct nvml_watch *w); /* NULL is fine */

/* Whether any GPU reports events; otherwise only nvml_watch_look() finds
 * failures. */
bool nvml_watch_has_events(const struct nvml_watch *w);
/* Waits at most ms for an event. Each GPU is reported once.
 * out  ret_gpu, ret_why [NVML_WHY_CAP]  if 1 is returned: the GPU that failed
 *               and why, "xid 79: GPU has fallen off the bus"
 *      ret_more  another event may be available
 * err  ERR_EXTERN the driver does not answer any more
 * ret  1, 0 no failure, -1 */
int nvml_watch_next(struct nvml_watch *w, int ms, size_t *ret_gpu,
                    char *ret_why, bool *ret_more,
                    struct error *err) MUST_CHECK;
/* Reads the GPU's error counts.
 * ret  1 and ret_why as above; 0 it is healthy, or was reported before
 * cost some calls of the driver; on a GPU that is lost they may take long */
int nvml_watch_look(struct nvml_watch *w, size_t gpu, char *ret_why);

/* "NVIDIA H100 80GB HBM3" -> "h100", "NVIDIA A100-SXM4-40GB" -> "a100",
 * "NVIDIA GeForce RTX 4090" -> "rtx4090"; "gpu" when nothing is left. */
void nvml_type_of(const char *name, char *ret, size_t cap);

#endif
