/* nf4.cu - weights in four bits: NormalFloat, with scalers that are quantised
 * a second time.
 *
 * Bit by bit what torchao 0.9.0 makes on a CPU: each step rounds to the type
 * of the weights, and so do these kernels. Where torchao divides 0 by 0, a
 * block of zeros, the codes are that of 0.
 *
 * src  Dettmers et al. 2023, arXiv:2305.14314 */
#include "kernels/exec/exec_launch.h"

namespace
{

enum { BLOCK = NF4_BLOCK, GROUP = NF4_GROUP, CODES = 16, ZERO = 7 };

/* The type that each step rounds to. With fp16 a factor of 128 over a
 * difference of scalers would often be infinite. */
template <class T> struct rounds_to {
    typedef float type;
};
template <> struct rounds_to<bf16> {
    typedef bf16 type;
};
template <class T> using quant = typename rounds_to<T>::type;

template <class Q> FN float in(float v)
{
    return (float)(Q)v;
}

/* A kernel's parameter, so that a GPU reads it from its constant memory. */
struct codebook {
    float at[CODES];
};

template <class Q> codebook codes_of()
{
    static const float exact[CODES] = {-1.0f,    -0.6962f, -0.5251f, -0.3949f,
                                       -0.2844f, -0.1848f, -0.0911f, 0.0f,
                                       0.0796f,  0.1609f,  0.2461f,  0.3379f,
                                       0.4407f,  0.5626f,  0.7230f,  1.0f};
    codebook c;

    for (int i = 0; i < CODES; i++)
        c.at[i] = (float)(Q)exact[i];
    return c;
}

/* A NaN stays. */
FN float keep_larger(float most, float v)
{
    return v > most || v != v ? v : most;
}

template <class T> FN float value_of(const T *w, int64_t i)
{
    return (float)(acc<T>)w[i];
}

template <class T> FN float block_absmax(const T *w)
{
    float most = 0;

    for (int i = 0; i < BLOCK; i++)
        most = keep_larger(most, fabsf(value_of(w, i)));
    return most;
}

/* ---- quantise ------------------------------------------------------------
 * While a model is loaded: a lane takes a whole block, or group. */

template <class T, class Q>
KERNEL find_absmax(blk b, Q *absmax, const T *w, int64_t n)
{
    for (int64_t i : b.each(n / BLOCK))
        absmax[i] = (Q)block_absmax(w + i * BLOCK);
}

/* One block of lanes: the same sum for every number of blocks. */
template <class Q> KERNEL find_mean(blk b, Q *mean, const Q *absmax, int64_t n)
{
    double sum = 0;

    for (int64_t i : b.lanes(n))
        sum += (double)(float)absmax[i];
    sum = b.sum(sum);
    if (b.lane() == 0)
        *mean = (Q)((float)sum / (float)n);
}

FN int8_t to_int8(float v)
{
    if (!(v == v)) /* 0 * infinity: all scalers of the group are the mean */
        return 0;
    return (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
}

template <class Q>
KERNEL quantise_scalers(blk b, int8_t *scalers, Q *factors, const Q *mean,
                        const Q *absmax, int64_t n)
{
    const float m = (float)*mean;

    for (int64_t g : b.each((n + GROUP - 1) / GROUP)) {
        const int64_t lo = g * GROUP, hi = lo + GROUP < n ? lo + GROUP : n;
        float most = 0;
        for (int64_t i = lo; i < hi; i++)
            most = keep_larger(most, fabsf(in<Q>((float)absmax[i] - m)));
        const float factor = in<Q>(256.0f / (2.0f * most));
        factors[g] = (Q)factor;
        for (int64_t i = lo; i < hi; i++) {
            const float off = in<Q>((float)absmax[i] - m);
            scalers[i] = to_int8(rintf(in<Q>(off * factor)));
        }
    }
}

template <class Q> FN int code_of(float v, const codebook &book)
{
    int best = 0;
    float least = fabsf(in<Q>(v - book.at[0]));

    for (int i = 1; i < CODES; i++) {
        const float off = fabsf(in<Q>(v - book.at[i]));
        if (off < least) {
            least = off;
            best = i;
        }
    }
    return best;
}

template <class T>
KERNEL quantise_values(blk b, uint8_t *codes, const T *w, int64_t n,
                       codebook book)
{
    typedef quant<T> Q;

    for (int64_t i : b.each(n / BLOCK)) {
        const T *from = w + i * BLOCK;
        uint8_t *to = codes + i * (BLOCK / 2);
        const float most = block_absmax(from);
        for (int k = 0; k < BLOCK; k += 2) {
            int first = ZERO, second = ZERO;
            if (most != 0) {
                first = code_of<Q>(in<Q>(value_of(from, k) / most), book);
                second = code_of<Q>(in<Q>(value_of(from, k + 1) / most), book);
            }
            to[k / 2] = (uint8_t)(first << 4 | second);
        }
    }
}

/* ---- dequantise ---------------------------------------------------------- */

template <class Q> struct scale {
    const int8_t *scalers; /* null: they are not quantised */
    const Q *factors, *mean, *absmax;
    FN float of(int64_t block) const
    {
        if (!scalers)
            return (float)absmax[block];
        const float s =
            in<Q>((float)scalers[block] / (float)factors[block / GROUP]);
        return in<Q>(s + (float)*mean);
    }
};

/* An index that is not known before needs memory, which for a parameter is the
 * slow local one of each lane. So the codes are in shared memory, once for each
 * of its 32 banks: lanes that look up different codes never wait for each
 * other. */
#ifdef EXEC_CUDA
enum { COPIES = 32 };
#else
enum { COPIES = 1 };
#endif

/* Values of a lane, which are a load of 4 bytes and on a GPU, in 16 bits, a
 * store of 16. */
enum { TOGETHER = 8 };

template <int W> FN uint32_t load_codes(const uint8_t *p)
{
    uint32_t word;
#ifdef EXEC_CUDA
    if constexpr (W > 1)
        return *reinterpret_cast<const uint32_t *>(p);
#endif
    memcpy(&word, p, sizeof(word));
    return word;
}

/* The code of value k of a lane: of two in a byte the first is above. */
FN uint32_t code_at(uint32_t word, int k)
{
    return word >> (k % 2 ? k / 2 * 8 : k / 2 * 8 + 4) & 15;
}

/* W: values of a store. That rounds to T is enough: Q is T, or float. */
template <class T, int W>
KERNEL expand(blk b, T *w, const uint8_t *codes, scale<quant<T>> scales,
              int64_t n, codebook book)
{
    typedef vec<acc<T>, W> V;
    SHARED(float, at, CODES * COPIES);
    const float *mine = at + b.lane() % COPIES;

    for (int64_t l : b.lanes(COPIES))
        UNROLL for (int k = 0; k < CODES; k++) at[k * COPIES + l] = book.at[k];
    b.sync();
    for (int64_t i : b.each(n, TOGETHER)) {
        const float s = scales.of(i / BLOCK);
        const uint32_t word = load_codes<W>(codes + i / 2);
        UNROLL for (int j = 0; j < TOGETHER; j += W)
        {
            V v;
            EACH v.v[k] = mine[code_at(word, j + k) * COPIES] * s;
            v.store(w + i + j);
        }
    }
}

/* ---- the ops ------------------------------------------------------------- */

int check(const struct nf4 *q, struct error *err)
{
    if (q->n < 0 || q->n % BLOCK != 0)
        return error_set(err, ERR_INVAL,
                         "NF4: %lld values, which are no multiple of %d",
                         (long long)q->n, (int)BLOCK);
    return 0;
}

/* The scalers wait where the codes will be, which take 8 times the room. */
template <class T>
int nf4_quantise(struct device *d, const struct nf4 *q, const void *w,
                 struct error *err)
{
    typedef quant<T> Q;
    const int64_t n = q->n / BLOCK;
    Q *absmax = (Q *)(q->scalers ? (void *)q->codes : q->absmax);

    if (check(q, err) < 0)
        return -1;
    launch(d, blocks(d, q->n, n), find_absmax<T, Q>, absmax, (const T *)w,
           q->n);
    if (q->scalers) {
        const int64_t groups = (n + GROUP - 1) / GROUP;
        launch(d, n > 0, find_mean<Q>, (Q *)q->mean, (const Q *)absmax, n);
        launch(d, blocks(d, n, groups), quantise_scalers<Q>, q->scalers,
               (Q *)q->factors, (const Q *)q->mean, (const Q *)absmax, n);
    }
    launch(d, blocks(d, q->n, n), quantise_values<T>, q->codes, (const T *)w,
           q->n, codes_of<Q>());
    return finish(d, "NF4", err);
}

template <class T>
int nf4_expand(struct device *d, void *w, const struct nf4 *q,
               struct error *err)
{
    typedef quant<T> Q;
    const scale<Q> scales = {q->scalers, (const Q *)q->factors,
                             (const Q *)q->mean, (const Q *)q->absmax};

    constexpr int wide = widest<T> < TOGETHER ? widest<T> : (int)TOGETHER;
    const bool fits = bits_of((T *)w) % VEC_BYTES == 0 &&
                      bits_of(q->codes) % sizeof(uint32_t) == 0;

    if (check(q, err) < 0)
        return -1;
    launch(d, blocks(d, q->n), fits ? expand<T, wide> : expand<T, 1>, (T *)w,
           (const uint8_t *)q->codes, scales, q->n, codes_of<Q>());
    return finish(d, "NF4", err);
}

} // namespace

FAMILY(nf4)
{
    ops->llm.nf4_quantise = BY_TYPE(nf4_quantise);
    ops->llm.nf4_expand = BY_TYPE(nf4_expand);
}
