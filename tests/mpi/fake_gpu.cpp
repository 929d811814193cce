/* fake_gpu.cpp - see fake_gpu.h. */
#include "tests/mpi/fake_gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <deque>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

extern "C" {
#include "kernels/card_name.h"
#include "kernels/module_load.h"
#include "worker/comm/comm.h"
}

struct fake_counts fake;
bool fake_is_early;
int32_t fake_gpus = 1;
size_t fake_left = (size_t)4 << 30, fake_all = (size_t)4 << 30;
size_t fake_kernels;
enum fake_surprise fake_surprise;
int32_t fake_surprise_at;
enum fake_nccl fake_nccl;

struct graph {
    std::vector<std::function<int(struct device *)>> calls;
};

namespace
{

typedef std::function<int(struct device *)> call_f;

const struct device_ops *host; /* the host device's */
struct device_ops table;
struct device *the_device;
bool is_loaded; /* its kernels */

std::deque<call_f> queue;
int64_t n_enqueued, n_done;
bool is_inside;        /* a call of ours runs: what it calls is the host's */
struct graph *capture; /* under way */
bool is_broken;        /* a call in it was refused */
int32_t n_begun;       /* captures */
int is_exposed;        /* the last thing begun was a collective */
std::set<const void *> pinned;
double marks[DEVICE_MARKS];
bool is_marked[DEVICE_MARKS];

struct slot {
    call_f copy;
    int64_t empty_at;
};
struct slot slots[DEVICE_SLOTS];

double now_s()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int run_to(int64_t n)
{
    int rc = 0;
    while (n_done < n) {
        call_f f = queue.front();
        queue.pop_front();
        n_done++;
        is_inside = true;
        rc |= f(the_device);
        is_inside = false;
    }
    return rc;
}

int enqueue(call_f f)
{
    if (capture) {
        capture->calls.push_back(f);
        return 0;
    }
    queue.push_back(f);
    n_enqueued++;
    fake.hidden += is_exposed;
    is_exposed = 0;
    return 0;
}

bool surprises(enum fake_surprise what)
{
    return fake_surprise == what && fake_surprise_at > 0 &&
           n_begun == fake_surprise_at;
}

/* What CUDA does not allow while it captures. */
int forbid(const char *what, struct error *err)
{
    if (!capture)
        return 0;
    is_broken = true;
    return error_set(err, ERR_EXTERN, "%s in a capture", what);
}

/* ---- every op that enqueues, from the host's ------------------------------
 * What pointers to structs point at is the caller's again when a call
 * returns, so it is kept with the call. */
template <class T> struct keep {
    T v;
    keep(T x) : v(x)
    {
    }
    T get()
    {
        return v;
    }
};
#define KEEP_STRUCT(type)                          \
    template <> struct keep<const struct type *> { \
        struct type v;                             \
        bool has;                                  \
        keep(const struct type *x) : v(), has(x)   \
        {                                          \
            if (x)                                 \
                v = *x;                            \
        }                                          \
        const struct type *get()                   \
        {                                          \
            return has ? &v : nullptr;             \
        }                                          \
    };
KEEP_STRUCT(norm)
KEEP_STRUCT(norm_stats)
KEEP_STRUCT(norm_grad)
KEEP_STRUCT(conv3)
KEEP_STRUCT(sgd_args)
KEEP_STRUCT(adamw_args)
KEEP_STRUCT(rmsprop_args)
KEEP_STRUCT(image_norm)
KEEP_STRUCT(attention)
KEEP_STRUCT(nf4)
KEEP_STRUCT(row_part)
/* The caller's struct error is gone by then. */
template <> struct keep<struct error *> {
    keep(struct error *)
    {
    }
    struct error *get()
    {
        return nullptr;
    }
};

/* The host's own table, that of a transformer in it, and that of heads. */
template <class T> const T &host_table();
template <> const device_ops &host_table()
{
    return *host;
}
template <> const llm_ops &host_table()
{
    return host->llm;
}
template <> const head_ops &host_table()
{
    return host->llm.head;
}

template <class T, class... A> struct op {
    typedef int (*type)(struct device *, A...);
    template <type T::*M> static int call(struct device *d, A... a)
    {
        if (is_inside)
            return (host_table<T>().*M)(d, a...);
        fake.calls += !capture;
        if (capture && surprises(FAKE_CALL))
            return is_broken = true, -1;
        std::tuple<keep<A>...> kept(a...);
        return enqueue([kept](struct device *dev) mutable {
            return std::apply(
                [dev](auto &...k) {
                    return (host_table<T>().*M)(dev, k.get()...);
                },
                kept);
        });
    }
};
template <auto M, class T, class... A>
constexpr auto wrapped(int (*T::*)(struct device *, A...))
{
    return &op<T, A...>::template call<M>;
}

int nchw_to_nhwc(struct device *d, size_t size, void *y, const void *x,
                 const struct image_u8 *list, int32_t N, int64_t pixels,
                 int32_t C, struct error *err)
{
    const auto call =
        wrapped<&device_ops::nchw_to_nhwc>(&device_ops::nchw_to_nhwc);

    fake.planes++;
    return call(d, size, y, x, list, N, pixels, C, err);
}
#define WRAP(name) table.name = wrapped<&device_ops::name>(&device_ops::name)
#define WRAP_LLM(name) table.llm.name = wrapped<&llm_ops::name>(&llm_ops::name)

/* ---- memory --------------------------------------------------------------
 */

int sync(struct device *, struct error *err)
{
    if (is_inside)
        return 0;
    fake.syncs++;
    is_exposed = 0;
    if (forbid("sync", err) < 0)
        return -1;
    return run_to(n_enqueued) ? error_set(err, ERR_EXTERN, "a call failed") : 0;
}

int alloc(struct device *d, size_t bytes, void **ret, struct error *err)
{
    return forbid("alloc", err) < 0 ? -1 : host->alloc(d, bytes, ret, err);
}

void release(struct device *d, void *p)
{
    (void)run_to(n_enqueued);
    host->release(d, p);
}

int pin(struct device *, void *p, size_t bytes, struct error *err)
{
    if ((uintptr_t)p % 4096 != 0 || bytes % 4096 != 0)
        return error_set(err, ERR_EXTERN, "pin: a part of a page");
    pinned.insert(p);
    fake.pins++;
    return 0;
}

void unpin(struct device *, void *p)
{
    (void)run_to(n_enqueued);
    pinned.erase(p);
}

/* Pinned memory is read when the device gets there. */
int to_device(struct device *, void *dst, const void *src, size_t bytes,
              struct error *err)
{
    if (forbid("to_device", err) < 0)
        return -1;
    if (pinned.count(src))
        return enqueue([=](struct device *) {
            memcpy(dst, src, bytes);
            return 0;
        });
    if (bytes == 0)
        return 0;
    const char *p = (const char *)src;
    std::vector<char> now(p, p + bytes);
    return enqueue([=](struct device *) {
        memcpy(dst, now.data(), now.size());
        return 0;
    });
}

int to_host(struct device *d, void *dst, const void *src, size_t bytes,
            struct error *err)
{
    if (sync(d, err) < 0)
        return -1;
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return 0;
}

int put(struct device *, void *dst, const void *src, size_t bytes,
        struct error *err)
{
    if (forbid("put", err) < 0)
        return -1;
    const char *p = (const char *)src;
    std::vector<char> now(p, p + bytes);
    return enqueue([=](struct device *) {
        memcpy(dst, now.data(), now.size());
        return 0;
    });
}

int memory(struct device *, size_t *ret_free, size_t *ret_total, struct error *)
{
    const size_t kernels = is_loaded ? fake_kernels : 0;
    *ret_free = fake_left > kernels ? fake_left - kernels : 0;
    *ret_total = fake_all;
    return 0;
}

/* ---- the same calls again, marks ------------------------------------------
 */

int capture_begin(struct device *, struct error *err)
{
    if (capture)
        return error_set(err, ERR_EXTERN, "a capture in a capture");
    n_begun++;
    if (surprises(FAKE_BEGIN))
        return error_set(err, ERR_EXTERN, "the driver does not capture");
    capture = new graph;
    is_broken = false;
    return 0;
}

int capture_end(struct device *, struct graph **ret, struct error *err)
{
    struct graph *g = capture;
    capture = nullptr;
    if (g && surprises(FAKE_END))
        is_broken = true;
    if (g && !is_broken) {
        fake.captures++;
        fake.graphs++;
        *ret = g;
        return 0;
    }
    delete g;
    return error_set(err, ERR_EXTERN, g ? "the capture is broken" : "none");
}

int launch(struct device *, struct graph *g, struct error *err)
{
    if (forbid("launch", err) < 0)
        return -1;
    fake.launches++;
    for (call_f &f : g->calls)
        (void)enqueue(f);
    return 0;
}

void graph_free(struct device *, struct graph *g)
{
    if (!g)
        return;
    (void)run_to(n_enqueued);
    fake.graphs--;
    delete g;
}

int mark(struct device *, int32_t i, struct error *err)
{
    if (i < 0 || i >= DEVICE_MARKS)
        return error_set(err, ERR_INVAL, "mark %d", i);
    is_marked[i] = false;
    return enqueue([i](struct device *) {
        is_marked[i] = true;
        marks[i] = now_s();
        return 0;
    });
}

int elapsed(struct device *, int32_t from, int32_t to, double *ret_s,
            struct error *err)
{
    if (from < 0 || from >= DEVICE_MARKS || to < 0 || to >= DEVICE_MARKS)
        return error_set(err, ERR_INVAL, "marks %d, %d", from, to);
    if (!is_marked[from] || !is_marked[to])
        return error_set(err, ERR_EXTERN, "mark %d or %d is not over", from,
                         to);
    *ret_s = marks[to] - marks[from];
    return 0;
}

/* ---- copies beside the work -----------------------------------------------
 */

int check_slot(int32_t i, struct error *err)
{
    return i >= 0 && i < DEVICE_SLOTS ? 0
                                      : error_set(err, ERR_INVAL, "slot %d", i);
}

void fill(struct slot *s)
{
    if (!s->copy)
        return;
    (void)s->copy(the_device);
    s->copy = nullptr;
}

int sent(struct device *, int32_t i, struct error *err)
{
    if (check_slot(i, err) < 0)
        return -1;
    if (slots[i].copy)
        (void)run_to(slots[i].empty_at);
    fill(&slots[i]);
    return 0;
}

int send_to(struct device *d, int32_t i, void *dst, const void *src,
            size_t bytes, struct error *err)
{
    if (check_slot(i, err) < 0)
        return -1;
    fake.sends++;
    fake.sent_bytes += (int64_t)bytes;
    slots[i].copy = [=](struct device *) {
        memcpy(dst, src, bytes);
        return 0;
    };
    return fake_is_early ? sent(d, i, err) : 0;
}

int receive(struct device *, int32_t i, struct error *err)
{
    if (check_slot(i, err) < 0)
        return -1;
    return enqueue([i](struct device *) {
        fill(&slots[i]);
        return 0;
    });
}

int reuse(struct device *, int32_t i, struct error *err)
{
    if (check_slot(i, err) < 0)
        return -1;
    slots[i].empty_at = n_enqueued;
    return 0;
}

const char *bus(struct device *)
{
    return "0000:18:00.0";
}

void *stream(struct device *)
{
    return &queue;
}

void destroy(struct device *d)
{
    if (!d)
        return;
    (void)run_to(n_enqueued);
    d->ops = host;
    d->host_memory = true;
    the_device = nullptr;
    host->destroy(d);
}

void fill_table()
{
    table = *host;
    WRAP(copy);
    WRAP(zero);
    WRAP(cast);
    WRAP(gemm);
    WRAP(im2col3);
    WRAP(pad_rows);
    WRAP(pw_fwd);
    WRAP(pw_bwd);
    WRAP(dw_fwd);
    WRAP(dw_bwd);
    WRAP(norm_apply);
    WRAP(norm_grads);
    WRAP(norm_rstd);
    WRAP(add);
    WRAP(avgpool_fwd);
    WRAP(avgpool_bwd);
    WRAP(bias_fwd);
    WRAP(bias_bwd);
    WRAP(dropout);
    WRAP(xent);
    WRAP(images_u8);
    table.nchw_to_nhwc = nchw_to_nhwc;
    WRAP(sgd);
    WRAP(adamw);
    WRAP(adamw8);
    WRAP(rmsprop);
    WRAP(sum_squares);
    WRAP(ema);
    WRAP_LLM(rmsnorm_fwd);
    WRAP_LLM(rmsnorm_bwd);
    table.llm.head.norm_fwd = wrapped<&head_ops::norm_fwd>(&head_ops::norm_fwd);
    table.llm.head.norm_bwd = wrapped<&head_ops::norm_bwd>(&head_ops::norm_bwd);
    WRAP_LLM(rope);
    WRAP_LLM(attention_fwd);
    WRAP_LLM(attention_bwd);
    WRAP_LLM(swiglu_fwd);
    WRAP_LLM(swiglu_bwd);
    WRAP_LLM(take_rows);
    WRAP_LLM(put_rows);
    WRAP_LLM(add_rows);
    WRAP_LLM(xent_sums);
    WRAP_LLM(xent_part);
    WRAP_LLM(nf4_quantise);
    WRAP_LLM(nf4_expand);
    WRAP_LLM(attention_step);
    WRAP_LLM(row_means);
    WRAP_LLM(scale_rows);
    WRAP_LLM(answer_sums);
    WRAP_LLM(pair_factors);
    WRAP_LLM(round_int4);
    WRAP_LLM(round_int8);
    table.name = "cuda";
    table.destroy = destroy;
    table.alloc = alloc;
    table.release = release;
    table.count = nullptr; /* CUPTI counts */
    table.bus = bus;
    table.pin = pin;
    table.unpin = unpin;
    table.to_device = to_device;
    table.to_host = to_host;
    table.sync = sync;
    table.put = put;
    table.memory = memory;
    table.capture_begin = capture_begin;
    table.capture_end = capture_end;
    table.launch = launch;
    table.graph_free = graph_free;
    table.mark = mark;
    table.elapsed = elapsed;
    table.send = send_to;
    table.receive = receive;
    table.reuse = reuse;
    table.sent = sent;
    table.stream = stream;
}

/* ---- CUDA's events, and NCCL over MPI --------------------------------------
 * A collective waits for what the compute stream had been given, and happens
 * when somebody asks whether it is over, or one that was started behind it. */
struct event {
    int64_t at;                                /* of the compute queue */
    std::vector<std::function<void()>> before; /* on NCCL's stream */
};
struct nccl_stream {
    int64_t at; /* it waits for that much of the queue */
    std::vector<std::function<void()>> ops;
};

std::deque<event *> recorded; /* on NCCL's stream */

enum { OK = 0, NOT_READY = 600, IN_PROGRESS = 7 };
int polls; /* of a call that is not taken yet */

int priorities(int *least, int *greatest)
{
    *least = FAKE_LEAST_PRIORITY;
    *greatest = FAKE_GREATEST_PRIORITY;
    return OK;
}
int stream_create(void **ret, unsigned, int priority)
{
    fake.priority = priority;
    *ret = new nccl_stream();
    return OK;
}
int stream_destroy(void *s)
{
    delete static_cast<nccl_stream *>(s);
    return OK;
}
int event_create(void **ret, unsigned)
{
    *ret = new event();
    return OK;
}
int event_destroy(void *e)
{
    delete static_cast<event *>(e);
    return OK;
}
int event_record(void *e, void *s)
{
    event *ev = static_cast<event *>(e);
    if (s == &queue) {
        if (capture)
            return is_broken = true, 901; /* it would become part of it */
        ev->at = n_enqueued;
    } else {
        nccl_stream *n = static_cast<nccl_stream *>(s);
        ev->at = n->at;
        ev->before.swap(n->ops);
        recorded.push_back(ev);
    }
    return OK;
}
int stream_wait(void *s, void *e, unsigned)
{
    static_cast<nccl_stream *>(s)->at = static_cast<event *>(e)->at;
    return OK;
}
int event_query(void *e)
{
    event *ev = static_cast<event *>(e);
    if (fake_nccl != NCCL_WORKS || polls-- > 0)
        return NOT_READY;
    is_exposed = 0; /* whoever asks waits */
    (void)run_to(ev->at);
    while (!ev->before.empty()) {
        event *first = recorded.front();
        recorded.pop_front();
        (void)run_to(first->at);
        for (auto &f : first->before)
            f();
        first->before.clear();
    }
    polls = 2;
    return OK;
}

/* NCCL's work is done by our own communicator over MPI, which has every type;
 * what is a group of sends here is a scatter there. */
struct comm *over;
const void *first_sent;
const double wait_s = 60;

enum comm_type type_of(int t)
{
    return t == 8   ? COMM_F64
           : t == 7 ? COMM_F32
           : t == 6 ? COMM_F16
           : t == 9 ? COMM_BF16
                    : COMM_I64;
}
int begin(nccl_stream *s, std::function<void()> f)
{
    fake.collectives++;
    is_exposed = 1;
    s->ops.push_back(f);
    polls = 2;
    return IN_PROGRESS;
}
void works(int rc)
{
    if (rc < 0)
        abort();
}
int finish(int rc, int ticket)
{
    return rc < 0 ? rc : over->ops->wait(over, ticket, wait_s, nullptr);
}
int nccl_all_reduce(const void *, void *out, size_t n, int type, int op, void *,
                    void *s)
{
    return begin(static_cast<nccl_stream *>(s), [=] {
        works(comm_all_reduce_now(over, out, n, type_of(type),
                                  op == 0 ? COMM_SUM : COMM_MAX, wait_s,
                                  nullptr));
    });
}
int nccl_all_gather(const void *in, void *out, size_t n, int type, void *,
                    void *s)
{
    return begin(static_cast<nccl_stream *>(s), [=] {
        int t = -1, rc = over->ops->all_gather(over, out, in, n, type_of(type),
                                               &t, nullptr);
        works(finish(rc, t));
    });
}
int nccl_reduce_scatter(const void *in, void *out, size_t n, int type, int,
                        void *, void *s)
{
    return begin(static_cast<nccl_stream *>(s), [=] {
        int t = -1, rc = over->ops->reduce_scatter(over, out, in, n,
                                                   type_of(type), &t, nullptr);
        works(finish(rc, t));
    });
}
int nccl_broadcast(const void *, void *out, size_t n, int, int root, void *,
                   void *s)
{
    return begin(static_cast<nccl_stream *>(s), [=] {
        works(comm_broadcast_now(over, out, n, root, wait_s, nullptr));
    });
}
int nccl_reduce(const void *, void *x, size_t n, int type, int, int root,
                void *, void *s)
{
    return begin(static_cast<nccl_stream *>(s), [=] {
        works(
            comm_reduce_now(over, x, n, type_of(type), root, wait_s, nullptr));
    });
}
int nccl_send(const void *in, size_t, int, int, void *, void *)
{
    first_sent = first_sent ? first_sent : in;
    return OK;
}
int nccl_receive(void *out, size_t n, int, int root, void *, void *s)
{
    const void *in = first_sent;
    first_sent = nullptr;
    return begin(static_cast<nccl_stream *>(s),
                 [=] {
                     works(comm_scatter_now(over, out, in, n, root, wait_s,
                                            nullptr));
                 }) == IN_PROGRESS
               ? OK
               : 1;
}
int nccl_init(void **ret, int, ...)
{
    if (!over && comm_mpi_create(nullptr, &over, nullptr) < 0)
        return 1;
    *ret = &polls;
    polls = 3;
    return IN_PROGRESS;
}
int nccl_async_error(void *, int *ret)
{
    if (fake_nccl == NCCL_LOSES_RANK)
        return *ret = 6, OK;
    if (fake_nccl == NCCL_LACKS_MEMORY)
        return *ret = 1, OK;
    *ret = polls-- > 0 ? IN_PROGRESS : OK;
    return OK;
}
int nccl_id(char *id)
{
    memset(id, 'x', 128);
    return OK;
}
const char *nccl_text(int)
{
    return "fake";
}
int nccl_abort(void *)
{
    fake.aborts++;
    return OK;
}
int nccl_destroy(void *)
{
    over->ops->destroy(over);
    over = nullptr;
    return OK;
}
int nccl_done(void *)
{
    return OK;
}
int nccl_none()
{
    return OK;
}

const struct {
    const char *name;
    void *f;
} symbols[] = {
    {"cuCtxGetStreamPriorityRange", (void *)priorities},
    {"cuStreamCreateWithPriority", (void *)stream_create},
    {"cuStreamDestroy_v2", (void *)stream_destroy},
    {"cuStreamWaitEvent", (void *)stream_wait},
    {"cuEventCreate", (void *)event_create},
    {"cuEventDestroy_v2", (void *)event_destroy},
    {"cuEventRecord", (void *)event_record},
    {"cuEventQuery", (void *)event_query},
    {"ncclGetUniqueId", (void *)nccl_id},
    {"ncclCommInitRankConfig", (void *)nccl_init},
    {"ncclCommGetAsyncError", (void *)nccl_async_error},
    {"ncclGetErrorString", (void *)nccl_text},
    {"ncclAllReduce", (void *)nccl_all_reduce},
    {"ncclAllGather", (void *)nccl_all_gather},
    {"ncclReduceScatter", (void *)nccl_reduce_scatter},
    {"ncclBroadcast", (void *)nccl_broadcast},
    {"ncclReduce", (void *)nccl_reduce},
    {"ncclSend", (void *)nccl_send},
    {"ncclRecv", (void *)nccl_receive},
    {"ncclCommFinalize", (void *)nccl_done},
    {"ncclCommDestroy", (void *)nccl_destroy},
    {"ncclCommAbort", (void *)nccl_abort},
};
char library; /* the handle of both */

} // namespace

extern "C" {

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *lib, const char *name);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *lib, const char *name);
int __real_device_cuda_create(int32_t index, struct device **ret,
                              struct error *err);
int __real_device_cuda_count(int32_t *ret, struct error *err);
int __wrap_device_cuda_create(int32_t index, struct device **ret,
                              struct error *err);
int __wrap_device_cuda_count(int32_t *ret, struct error *err);
int __real_device_cuda_card(int32_t index, char *ret, struct error *err);
int __wrap_device_cuda_card(int32_t index, char *ret, struct error *err);
int __real_device_cuda_load(struct device *d, struct module_load *ret,
                            struct error *err);
int __wrap_device_cuda_load(struct device *d, struct module_load *ret,
                            struct error *err);

static bool is_real()
{
    const char *v = getenv("MGPU_TEST_DEVICE");
    return v && strcmp(v, "cuda") == 0;
}

void *__wrap_dlopen(const char *name, int flags)
{
    bool is_ours = name && (strcmp(name, "libcuda.so.1") == 0 ||
                            strcmp(name, "libnccl.so.2") == 0);
    return is_ours && !is_real() ? &library : __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *lib, const char *name)
{
    if (lib != &library)
        return __real_dlsym(lib, name);
    for (auto &s : symbols)
        if (strcmp(s.name, name) == 0)
            return s.f;
    return (void *)nccl_none; /* there, but no test may need it */
}

int __wrap_device_cuda_create(int32_t index, struct device **ret,
                              struct error *err)
{
    struct device *d = nullptr;
    if (is_real())
        return __real_device_cuda_create(index, ret, err);
    if (index >= fake_gpus)
        return error_set(err, ERR_UNAVAIL, "CUDA: no GPU %d", index);
    if (device_host_create(1, &d, err) < 0)
        return -1;
    host = d->ops;
    fill_table();
    d->ops = &table;
    d->host_memory = false;
    the_device = d;
    is_loaded = false;
    for (struct slot &s : slots)
        s = slot();
    *ret = d;
    return 0;
}

int32_t fake_begun(void)
{
    return n_begun;
}

void fake_end(void)
{
    if (over)
        over->ops->destroy(over);
    over = nullptr;
}

int __wrap_device_cuda_card(int32_t index, char *ret, struct error *err)
{
    const char *name = getenv("MGPU_TEST_CARD");
    if (is_real())
        return __real_device_cuda_card(index, ret, err);
    (void)snprintf(ret, CARD_NAME_CAP, "%s", name ? name : "a fake GPU");
    return 0;
}

int __wrap_device_cuda_load(struct device *d, struct module_load *ret,
                            struct error *err)
{
    if (is_real())
        return __real_device_cuda_load(d, ret, err);
    is_loaded = true;
    *ret = {};
    ret->kernels = FAKE_KERNELS;
    ret->bytes = (int64_t)fake_kernels;
    return 0;
}

int __wrap_device_cuda_count(int32_t *ret, struct error *err)
{
    if (is_real())
        return __real_device_cuda_count(ret, err);
    *ret = fake_gpus;
    return 0;
}
}
