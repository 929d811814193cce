/* nvml.h - which GPUs this machine has, asked of NVIDIA's driver.
 *
 * The library is opened at run time, so the program builds and runs without
 * it; the few prototypes that we use are our own.
 */
#ifndef MGPU_SLURM_LOCAL_NVML_H
#define MGPU_SLURM_LOCAL_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct nvml_gpu {
    char uuid[96]; /* "GPU-8f1c...": what CUDA_VISIBLE_DEVICES takes */
    char name[96]; /* "NVIDIA H100 80GB HBM3" */
    char type[32]; /* "h100" */
    char bus[32];  /* "00000000:18:00.0" */
    int64_t bytes; /* of its memory; 0: it does not say */
    bool is_lost;  /* it has fallen off the bus, until the machine is started
                      again: nothing else is known of it */
};

/* The GPUs in the order of their PCI addresses, as CUDA_DEVICE_ORDER=PCI_BUS_ID
 * numbers them; those that are lost where the driver counts them.
 *
 * in   library  NULL: libnvidia-ml.so.1
 * out  gpus[cap], *ret_n
 * err  ERR_NOTFOUND there is no such library: a machine without a driver;
 *      ERR_EXTERN the driver does not answer;  ERR_LIMIT more than cap
 */
int nvml_list(const char *library, struct nvml_gpu *gpus, size_t cap,
              size_t *ret_n, struct error *err) MUST_CHECK;

/* ---- watching --------------------------------------------------------------
 */
struct nvml_watch; /* opaque; of one thread */

enum { NVML_WHY_CAP = 64 };

/* What counts against a GPU of what it says of itself at the beginning. */
enum nvml_judge {
    NVML_STRICT, /* errors of its memory since its last reset */
    NVML_AS_IS,  /* nothing: somebody has looked at it. What is new does */
};

/* Keeps the library open until nvml_watch_close().
 * in   library  as above
 *      uuids    [n] of the GPUs, whose numbers are their places; "" none: one
 *               that was lost before
 * err  ERR_NOTFOUND no library; ERR_EXTERN the driver does not answer, or is
 *      too old; ERR_NOMEM */
int nvml_watch_open(const char *library, const char *const *uuids, size_t n,
                    enum nvml_judge judge, struct nvml_watch **ret,
                    struct error *err) MUST_CHECK;
void nvml_watch_close(struct nvml_watch *w); /* NULL is fine */

/* Whether any GPU reports events; else nvml_watch_look() is all there is. */
bool nvml_watch_has_events(const struct nvml_watch *w);
/* Waits for an event, so long at most. Each GPU is told of once.
 * out  ret_gpu, ret_why [NVML_WHY_CAP]  where 1 is returned: it is not to be
 *               used any more, "xid 79: GPU has fallen off the bus"
 *      ret_more  there may be another one
 * err  ERR_EXTERN the driver does not answer any more
 * ret  1, 0 nothing of that kind, -1 */
int nvml_watch_next(struct nvml_watch *w, int ms, size_t *ret_gpu,
                    char *ret_why, bool *ret_more,
                    struct error *err) MUST_CHECK;
/* Asks the GPU how it is.
 * ret  1 and ret_why as above; 0 it is fine, or was told of before
 * cost some calls of the driver; on a GPU that is lost they may take long */
int nvml_watch_look(struct nvml_watch *w, size_t gpu, char *ret_why);

/* What an Xid means that says that the GPU has failed; NULL for one that a
 * program may bring about by itself, and for those that are not known. */
const char *nvml_xid_text(unsigned long long xid);

/* "NVIDIA H100 80GB HBM3" -> "h100", "NVIDIA A100-SXM4-40GB" -> "a100",
 * "NVIDIA GeForce RTX 4090" -> "rtx4090"; "gpu" when nothing is left. */
void nvml_type_of(const char *name, char *ret, size_t cap);

#endif
