/* fake_gpu.h - the host device, behaving as a GPU does; and NCCL beside it.
 *
 * For tests of what the worker asks of a GPU. Nothing that is enqueued runs
 * before it has to: at a sync(), a copy to the host, an event that is waited
 * for. Copies beside the work are as late as they may be, or as early. What
 * CUDA forbids in a capture fails. The kernels are the host's, so that every
 * result is that of the host device, bit by bit.
 *
 * device_cuda_create(), device_cuda_count(), device_cuda_card() and
 * device_cuda_load() give it, and dlopen() NCCL: the test is linked with --wrap
 * for these. With $MGPU_TEST_DEVICE=cuda they give what is really there.
 * $MGPU_TEST_CARD is the name of the card.
 */
#ifndef MGPU_TESTS_FAKE_GPU_H
#define MGPU_TESTS_FAKE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fake_counts {
    int64_t calls;    /* enqueued one by one */
    int64_t captures; /* graphs made */
    int64_t launches; /* of graphs */
    int64_t graphs;   /* that there are now */
    int64_t sends, syncs;
    int64_t sent_bytes;
    int64_t planes; /* calls and captures of nchw_to_nhwc() */
    int64_t pins;   /* pieces of memory that were page-locked */
    int64_t collectives;
    int64_t hidden;   /* of these: the device was given work behind it */
    int64_t aborts;   /* of communicators */
    int64_t priority; /* of the newest stream of NCCL's */
};
enum { FAKE_LEAST_PRIORITY = 0, FAKE_GREATEST_PRIORITY = -5 };
/* What NCCL does: it works; never ends; a rank of another node is lost; or its
 * buffers do not fit on the GPU, which it calls an unhandled CUDA error. */
enum fake_nccl { NCCL_WORKS, NCCL_HANGS, NCCL_LOSES_RANK, NCCL_LACKS_MEMORY };
extern enum fake_nccl fake_nccl;
extern struct fake_counts fake;
extern bool fake_is_early; /* copies beside the work */
/* What a driver surprises with: the n-th begin of a capture is refused, or its
 * end, or the first call in it that an op makes. n 0: none. */
enum fake_surprise { FAKE_BEGIN, FAKE_END, FAKE_CALL };
extern enum fake_surprise fake_surprise;
extern int32_t fake_surprise_at;
int32_t fake_begun(void);          /* captures, since the program's start */
extern int32_t fake_gpus;          /* that a process sees */
extern size_t fake_left, fake_all; /* bytes of memory */
extern size_t fake_kernels;        /* of these: taken when they are loaded */
enum { FAKE_KERNELS = 7 };
void fake_end(void); /* frees what an aborted communicator left */

#ifdef __cplusplus
}
#endif
#endif
