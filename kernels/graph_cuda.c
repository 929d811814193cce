/* graph_cuda.c - CUDA graphs, timing marks, and copies that overlap with work.
 *
 * Stream capture turns calls into a graph. Capture is thread-local, so that
 * another thread (the loader's, NCCL's) may continue to call CUDA. A graph
 * freezes the kernels' parameters, including addresses, which is why a scratch
 * that has to grow is kept, and not freed, until the end.
 *
 * Copies have a stream of their own. Two events per slot order them with the
 * work: `full` after the copy, `empty` after the last reader. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "kernels/exec/exec_cuda.h"

struct graph {
    cudaGraphExec_t exec;
};

struct cuda_queue {
    cudaStream_t copies;
    cudaEvent_t marks[DEVICE_MARKS];
    struct {
        cudaEvent_t full, empty;
    } slots[DEVICE_SLOTS];
};

static struct cuda_device *cuda_of(struct device *d)
{
    return (struct cuda_device *)d;
}

static cudaStream_t stream_of(struct device *d)
{
    return (cudaStream_t)((struct exec_device *)d)->stream;
}

void cuda_queue_close(struct cuda_device *cuda)
{
    struct cuda_queue *q = cuda->queue;

    if (!q)
        return;
    if (q->copies) {
        (void)cudaStreamSynchronize(q->copies);
        (void)cudaStreamDestroy(q->copies);
    }
    for (int i = 0; i < DEVICE_MARKS; i++)
        if (q->marks[i])
            (void)cudaEventDestroy(q->marks[i]);
    for (int i = 0; i < DEVICE_SLOTS; i++) {
        if (q->slots[i].full)
            (void)cudaEventDestroy(q->slots[i].full);
        if (q->slots[i].empty)
            (void)cudaEventDestroy(q->slots[i].empty);
    }
    free(q);
    cuda->queue = NULL;
}

static int event(cudaEvent_t *ret, unsigned flags, struct error *err)
{
    return cuda_check((int)cudaEventCreateWithFlags(ret, flags), "event", err);
}

int cuda_queue_open(struct cuda_device *cuda, struct error *err)
{
    struct cuda_queue *q = calloc(1, sizeof(*q));

    if (!q)
        return error_set(err, ERR_NOMEM, "a device");
    cuda->queue = q; /* the caller closes */
    if (cuda_check(
            (int)cudaStreamCreateWithFlags(&q->copies, cudaStreamNonBlocking),
            "CUDA stream", err) < 0)
        return -1;
    for (int i = 0; i < DEVICE_MARKS; i++)
        if (event(&q->marks[i], cudaEventDefault, err) < 0)
            return -1;
    /* The host waits only for `full`, and a copy takes milliseconds. */
    for (int i = 0; i < DEVICE_SLOTS; i++)
        if (event(&q->slots[i].full,
                  cudaEventDisableTiming | cudaEventBlockingSync, err) < 0 ||
            event(&q->slots[i].empty, cudaEventDisableTiming, err) < 0)
            return -1;
    return 0;
}

/* ---- capture and replay ---------------------------------------------------
 */

static int capture_begin(struct device *d, struct error *err)
{
    if (cuda_check((int)cudaStreamBeginCapture(
                       stream_of(d), cudaStreamCaptureModeThreadLocal),
                   "capture", err) < 0)
        return -1;
    cuda_of(d)->captures = true;
    return 0;
}

static int capture_end(struct device *d, struct graph **ret, struct error *err)
{
    struct exec_device *exec = (struct exec_device *)d;
    cudaGraph_t calls = NULL;
    struct graph *g = NULL;

    cuda_of(d)->captures = false;
    int rc = cuda_check((int)cudaStreamEndCapture(stream_of(d), &calls),
                        "capture", err);
    if (rc == 0 && exec->failed)
        rc = exec->report(exec, "capture", err);
    /* A launch that failed in a capture is not an error of the device. */
    exec->failed = 0;
    if (rc == 0 && !(g = calloc(1, sizeof(*g))))
        rc = error_set(err, ERR_NOMEM, "a graph");
    if (rc == 0)
        rc = cuda_check((int)cudaGraphInstantiate(&g->exec, calls, 0),
                        "capture", err);
    if (calls)
        (void)cudaGraphDestroy(calls);
    if (rc < 0) {
        free(g);
        return -1;
    }
    cuda_of(d)->graphs++;
    *ret = g;
    return 0;
}

static int launch(struct device *d, struct graph *g, struct error *err)
{
    return cuda_check((int)cudaGraphLaunch(g->exec, stream_of(d)), "launch",
                      err);
}

static void graph_free(struct device *d, struct graph *g)
{
    if (!g)
        return;
    (void)cudaStreamSynchronize(stream_of(d)); /* it may be running */
    (void)cudaGraphExecDestroy(g->exec);
    cuda_of(d)->graphs--;
    free(g);
}

/* ---- marks ----------------------------------------------------------------
 */

/* In a capture, an event is an edge of the graph unless it is declared
 * external. */
static int mark(struct device *d, int32_t i, struct error *err)
{
    const unsigned flags =
        cuda_of(d)->captures ? cudaEventRecordExternal : cudaEventRecordDefault;

    if (i < 0 || i >= DEVICE_MARKS)
        return error_set(err, ERR_INVAL, "mark %d", i);
    return cuda_check((int)cudaEventRecordWithFlags(cuda_of(d)->queue->marks[i],
                                                    stream_of(d), flags),
                      "mark", err);
}

static int elapsed(struct device *d, int32_t from, int32_t to, double *ret_s,
                   struct error *err)
{
    const struct cuda_queue *q = cuda_of(d)->queue;
    float ms = 0;

    if (from < 0 || from >= DEVICE_MARKS || to < 0 || to >= DEVICE_MARKS)
        return error_set(err, ERR_INVAL, "marks %d, %d", from, to);
    if (cuda_check((int)cudaEventElapsedTime(&ms, q->marks[from], q->marks[to]),
                   "elapsed", err) < 0)
        return -1;
    *ret_s = (double)ms * 1e-3;
    return 0;
}

/* ---- copies in parallel with the work -------------------------------------
 */

static int check_slot(int32_t slot, struct error *err)
{
    if (slot < 0 || slot >= DEVICE_SLOTS)
        return error_set(err, ERR_INVAL, "slot %d", slot);
    return 0;
}

/* An event that was never recorded blocks no stream. */
static int send_to(struct device *d, int32_t slot, void *dst,
                   const void *host_src, size_t bytes, struct error *err)
{
    struct cuda_queue *q = cuda_of(d)->queue;

    if (check_slot(slot, err) < 0)
        return -1;
    if (cuda_check((int)cudaStreamWaitEvent(q->copies, q->slots[slot].empty, 0),
                   "send", err) < 0 ||
        cuda_check((int)cudaMemcpyAsync(dst, host_src, bytes,
                                        cudaMemcpyHostToDevice, q->copies),
                   "send", err) < 0)
        return -1;
    return cuda_check((int)cudaEventRecord(q->slots[slot].full, q->copies),
                      "send", err);
}

static int receive(struct device *d, int32_t slot, struct error *err)
{
    if (check_slot(slot, err) < 0)
        return -1;
    return cuda_check((int)cudaStreamWaitEvent(
                          stream_of(d), cuda_of(d)->queue->slots[slot].full, 0),
                      "receive", err);
}

static int reuse(struct device *d, int32_t slot, struct error *err)
{
    if (check_slot(slot, err) < 0)
        return -1;
    return cuda_check((int)cudaEventRecord(cuda_of(d)->queue->slots[slot].empty,
                                           stream_of(d)),
                      "reuse", err);
}

static int sent(struct device *d, int32_t slot, struct error *err)
{
    if (check_slot(slot, err) < 0)
        return -1;
    return cuda_check(
        (int)cudaEventSynchronize(cuda_of(d)->queue->slots[slot].full), "sent",
        err);
}

void cuda_queue_install(struct device_ops *ops)
{
    ops->capture_begin = capture_begin;
    ops->capture_end = capture_end;
    ops->launch = launch;
    ops->graph_free = graph_free;
    ops->mark = mark;
    ops->elapsed = elapsed;
    ops->send = send_to;
    ops->receive = receive;
    ops->reuse = reuse;
    ops->sent = sent;
}
