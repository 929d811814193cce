/* gemm_wide_dnnl.c - see gemm_wide_dnnl.h.
 *
 * A call makes its primitive, which takes 3 us when the library has the code of
 * that shape in its cache, and gives it back: what the library keeps for it
 * belongs to the thread that makes it. Versions 2 and 3 describe a matrix and a
 * product in different ways; the rest is the same. A call runs on one thread
 * (gemm_host.c). */
#include "kernels/gemm_wide_dnnl.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <math.h>
#include <string.h>

#define FUNCTIONS(X)               \
    X(engine_create)               \
    X(stream_create)               \
    X(stream_wait)                 \
    X(stream_destroy)              \
    X(memory_create)               \
    X(memory_destroy)              \
    X(primitive_create)            \
    X(primitive_execute)           \
    X(primitive_destroy)           \
    X(primitive_desc_destroy)      \
    X(primitive_attr_create)       \
    X(primitive_attr_destroy)      \
    X(primitive_attr_set_post_ops) \
    X(post_ops_create)             \
    X(post_ops_destroy)            \
    X(post_ops_append_sum)         \
    OF_VERSION(X)

#if DNNL_VERSION_MAJOR >= 3
#define OF_VERSION(X)                  \
    X(memory_desc_create_with_strides) \
    X(memory_desc_destroy)             \
    X(matmul_primitive_desc_create)
typedef dnnl_memory_desc_t matrix_desc;
#else
#define OF_VERSION(X)              \
    X(memory_desc_init_by_strides) \
    X(matmul_desc_init)            \
    X(primitive_desc_create)
typedef dnnl_memory_desc_t *matrix_desc;
#endif

enum { SRC, WEIGHTS, DST, MATRICES };

/* A process has one library. */
static struct {
#define MEMBER(name) __typeof__(dnnl_##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    dnnl_engine_t engine;
    bool is_open;
} lib;

/* What a product needs while it is computed; zeros: nothing yet. */
struct call {
#if DNNL_VERSION_MAJOR < 3
    dnnl_memory_desc_t descs[MATRICES];
#endif
    matrix_desc desc[MATRICES];
    dnnl_memory_t memory[MATRICES];
    dnnl_post_ops_t post_ops;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t primitive_desc;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
};

static dnnl_status_t describe(struct call *c, int i, int32_t rows, int32_t cols,
                              int32_t row_step, int32_t col_step)
{
    const dnnl_dims_t dims = {rows, cols}, steps = {row_step, col_step};
#if DNNL_VERSION_MAJOR >= 3
    return lib.memory_desc_create_with_strides(&c->desc[i], 2, dims, dnnl_f32,
                                               steps);
#else
    c->desc[i] = &c->descs[i];
    return lib.memory_desc_init_by_strides(c->desc[i], 2, dims, dnnl_f32,
                                           steps);
#endif
}

static dnnl_status_t describe_product(struct call *c)
{
#if DNNL_VERSION_MAJOR >= 3
    return lib.matmul_primitive_desc_create(&c->primitive_desc, lib.engine,
                                            c->desc[SRC], c->desc[WEIGHTS],
                                            NULL, c->desc[DST], c->attr);
#else
    dnnl_matmul_desc_t product;
    const dnnl_status_t rc = lib.matmul_desc_init(
        &product, c->desc[SRC], c->desc[WEIGHTS], NULL, c->desc[DST]);
    return rc != dnnl_success
               ? rc
               : lib.primitive_desc_create(&c->primitive_desc, &product,
                                           c->attr, lib.engine, NULL);
#endif
}

static dnnl_status_t add_to_result(struct call *c)
{
    dnnl_status_t rc = lib.post_ops_create(&c->post_ops);
    if (rc != dnnl_success)
        return rc;
#if DNNL_VERSION_MAJOR >= 3
    rc = lib.post_ops_append_sum(c->post_ops, 1, 0, dnnl_data_type_undef);
#else
    rc = lib.post_ops_append_sum(c->post_ops, 1);
#endif
    return rc != dnnl_success
               ? rc
               : lib.primitive_attr_set_post_ops(c->attr, c->post_ops);
}

static dnnl_status_t make(struct call *c, void *const data[MATRICES], bool adds)
{
    dnnl_status_t rc = lib.primitive_attr_create(&c->attr);
    if (rc == dnnl_success && adds)
        rc = add_to_result(c);
    if (rc == dnnl_success)
        rc = describe_product(c);
    if (rc == dnnl_success)
        rc = lib.primitive_create(&c->primitive, c->primitive_desc);
    for (int i = 0; i < MATRICES && rc == dnnl_success; i++)
        rc = lib.memory_create(&c->memory[i], c->desc[i], lib.engine, data[i]);
    if (rc == dnnl_success)
        rc = lib.stream_create(&c->stream, lib.engine,
                               dnnl_stream_default_flags);
    return rc;
}

static dnnl_status_t execute(const struct call *c)
{
    const dnnl_exec_arg_t args[MATRICES] = {
        {DNNL_ARG_SRC, c->memory[SRC]},
        {DNNL_ARG_WEIGHTS, c->memory[WEIGHTS]},
        {DNNL_ARG_DST, c->memory[DST]}};
    const dnnl_status_t rc =
        lib.primitive_execute(c->primitive, c->stream, MATRICES, args);
    const dnnl_status_t end = lib.stream_wait(c->stream);
    return rc != dnnl_success ? rc : end;
}

static void clear(struct call *c)
{
    if (c->stream != NULL)
        (void)lib.stream_destroy(c->stream);
    for (int i = 0; i < MATRICES; i++)
        if (c->memory[i] != NULL)
            (void)lib.memory_destroy(c->memory[i]);
    if (c->primitive != NULL)
        (void)lib.primitive_destroy(c->primitive);
    if (c->primitive_desc != NULL)
        (void)lib.primitive_desc_destroy(c->primitive_desc);
    if (c->post_ops != NULL)
        (void)lib.post_ops_destroy(c->post_ops);
    if (c->attr != NULL)
        (void)lib.primitive_attr_destroy(c->attr);
#if DNNL_VERSION_MAJOR >= 3
    for (int i = 0; i < MATRICES; i++)
        if (c->desc[i] != NULL)
            (void)lib.memory_desc_destroy(c->desc[i]);
#endif
}

/* The library takes what it only reads as if it wrote there. */
static void *handle(const float *p)
{
    void *ret;
    memcpy(&ret, &p, sizeof(ret));
    return ret;
}

static dnnl_status_t multiply(bool tb, int32_t m, int32_t n, int32_t k,
                              const float *A, const float *B, bool adds,
                              float *C)
{
    void *const data[MATRICES] = {handle(A), handle(B), C};
    struct call c = {.attr = NULL};
    dnnl_status_t rc = describe(&c, SRC, m, k, k, 1);
    if (rc == dnnl_success)
        rc = describe(&c, WEIGHTS, k, n, tb ? 1 : n, tb ? k : 1);
    if (rc == dnnl_success)
        rc = describe(&c, DST, m, n, n, 1);
    if (rc == dnnl_success)
        rc = make(&c, data, adds);
    if (rc == dnnl_success)
        rc = execute(&c);
    clear(&c);
    return rc;
}

/* ---- the proof ------------------------------------------------------------
 */

enum { ROWS = 67, COLS = 83, DEPTH = 70 };

/* Small integers: every sum is exact in fp32, in whichever order. */
static float value(int i)
{
    return (float)(i * 7 % 11 - 5);
}

static float sum_of(bool tb, int row, int col)
{
    float sum = 0;
    for (int i = 0; i < DEPTH; i++)
        sum += value(row * DEPTH + i) *
               value(tb ? col * DEPTH + i : i * COLS + col);
    return sum;
}

static const char *fault(bool tb, bool adds)
{
    static float a[ROWS * DEPTH], b[DEPTH * COLS], c[ROWS * COLS];
    for (int i = 0; i < ROWS * DEPTH; i++)
        a[i] = value(i);
    for (int i = 0; i < DEPTH * COLS; i++)
        b[i] = value(i);
    for (int i = 0; i < ROWS * COLS; i++)
        c[i] = adds ? (float)(i % 3) : NAN;
    if (multiply(tb, ROWS, COLS, DEPTH, a, b, adds, c) != dnnl_success)
        return "fails";
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            const int at = i * COLS + j;
            const float was = adds ? (float)(at % 3) : 0;
            if (c[at] != sum_of(tb, i, j) + was)
                return "multiplies wrongly";
        }
    return NULL;
}

/* ---- the library ----------------------------------------------------------
 */

/* ISO C has no cast from an object to a function pointer. */
static bool find(void *from, const char *name, void *ret)
{
    void *symbol = dlsym(from, name);
    memcpy(ret, &symbol, sizeof(symbol));
    return symbol != NULL;
}

const char *gemm_wide_dnnl_open(void *from)
{
    const char *why = NULL;
#define FIND(name) find(from, "dnnl_" #name, &lib.name) &&
    const bool has_all = FUNCTIONS(FIND) true;
#undef FIND
    if (!has_all)
        return "is not there";
    if (lib.engine_create(&lib.engine, dnnl_cpu, 0) != dnnl_success)
        return "has no engine";
    for (int i = 0; i < 4 && why == NULL; i++)
        why = fault(i & 1, i & 2);
    lib.is_open = why == NULL;
    return why;
}

bool gemm_wide_dnnl_is_open(void)
{
    return lib.is_open;
}

int gemm_wide_dnnl(bool tb, int32_t m, int32_t n, int32_t k, const float *A,
                   const float *B, bool adds, float *C, struct error *err)
{
    const dnnl_status_t rc = multiply(tb, m, n, k, A, B, adds, C);
    if (rc != dnnl_success)
        return error_set(
            err, rc == dnnl_out_of_memory ? ERR_NOMEM : ERR_EXTERN,
            "matrix product: [%d, %d] by [%d, %d]: oneDNN's matmul %s (%d)", m,
            k, k, n, rc == dnnl_out_of_memory ? "has no memory" : "fails",
            (int)rc);
    return 0;
}
