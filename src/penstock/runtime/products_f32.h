/* products_f32.h: sums of products of floats, for four outputs at a time.
 * Every product and every sum is rounded, in the order of the inputs, so that results are the same
 * on every processor. */
#ifndef PENSTOCK_PRODUCTS_F32_H
#define PENSTOCK_PRODUCTS_F32_H

#include "real.h"
#include "view.h"

/* Adds to four sums the products of an input and four weights. */
#define PENSTOCK_ADD_FOUR(sum, input, weights)                                                    \
    sum##0 += penstock_product(input, (weights)[0]);                                              \
    sum##1 += penstock_product(input, (weights)[1]);                                              \
    sum##2 += penstock_product(input, (weights)[2]);                                              \
    sum##3 += penstock_product(input, (weights)[3])

#define PENSTOCK_LOAD_FOUR(sum, sums) float sum##0 = (sums)[0], sum##1 = (sums)[1], sum##2 = (sums)[2], sum##3 = (sums)[3]

#define PENSTOCK_STORE_FOUR(sums, sum)                                                            \
    (sums)[0] = sum##0;                                                                           \
    (sums)[1] = sum##1;                                                                           \
    (sums)[2] = sum##2;                                                                           \
    (sums)[3] = sum##3

/* Weights are floats, or int8 if all are whole numbers that it holds.  The generated C of a model
 * that has no such weights defines 0, which leaves their code out. */
#ifndef PENSTOCK_NARROW_WEIGHTS
#define PENSTOCK_NARROW_WEIGHTS 1
#endif
#define PENSTOCK_FLOATS(weights) ((const float *)(const void *)(weights))

/* Four weights of each of two inputs, and the inputs.  All are loaded before one is used: loads next
 * to each other overlap. */
#define PENSTOCK_LOAD_WEIGHTS(v, w) float v[8] = {w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]}
#define PENSTOCK_LOAD_INPUTS(x, in) float x[2] = {penstock_get_f32(in, 0), penstock_get_f32(in, 1)}
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP)
#define PENSTOCK_LOADED(v, x)                                                                     \
    __asm__(""                                                                                    \
            : "+t"(v[0]), "+t"(v[1]), "+t"(v[2]), "+t"(v[3]), "+t"(v[4]), "+t"(v[5]),             \
              "+t"(v[6]), "+t"(v[7]), "+t"(x[0]), "+t"(x[1]))
#else
#define PENSTOCK_LOADED(v, x) (void)0
#endif

/* Adds `count` products to each of four sums; the weights of each input, of `bytes` bytes, are next
 * to each other. */
static inline void penstock_add_products_f32(const int8_t *x, const int8_t *weights, int32_t bytes,
                                             int32_t count, float *sums) {
    PENSTOCK_LOAD_FOUR(a, sums);
    if (PENSTOCK_NARROW_WEIGHTS && bytes == 1) {
        for (int32_t c = 0; c < count; c++, weights += 4) {
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, c), weights);
        }
    } else {
        const float *w = PENSTOCK_FLOATS(weights);
        const int8_t *const end = x + count / 2 * 8;
        for (; x != end; x += 8, w += 8) {
            PENSTOCK_LOAD_WEIGHTS(v, w);
            PENSTOCK_LOAD_INPUTS(xs, x);
            PENSTOCK_LOADED(v, xs);
            PENSTOCK_ADD_FOUR(a, xs[0], v);
            PENSTOCK_ADD_FOUR(a, xs[1], v + 4);
        }
        if (count % 2) {
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, 0), w);
        }
    }
    PENSTOCK_STORE_FOUR(sums, a);
}

/* The same for two vectors of inputs; the sums of the second follow those of the first. */
PENSTOCK_INLINE_KERNEL void penstock_add_products_of_two_f32(const int8_t *x, const int8_t *z,
                                                    const int8_t *weights, int32_t bytes,
                                                    int32_t count, float *sums) {
    PENSTOCK_LOAD_FOUR(a, sums);
    PENSTOCK_LOAD_FOUR(b, sums + 4);
    if (PENSTOCK_NARROW_WEIGHTS && bytes == 1) {
        for (int32_t c = 0; c < count; c++, weights += 4) {
            const float w[4] = {weights[0], weights[1], weights[2], weights[3]};
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, c), w);
            PENSTOCK_ADD_FOUR(b, penstock_get_f32(z, c), w);
        }
    } else {
        const float *w = PENSTOCK_FLOATS(weights);
        const int8_t *const end = x + count / 2 * 8;
        for (; x != end; x += 8, z += 8, w += 8) {
            PENSTOCK_LOAD_WEIGHTS(v, w);
            PENSTOCK_LOAD_INPUTS(xs, x);
            PENSTOCK_LOAD_INPUTS(zs, z);
            PENSTOCK_LOADED(v, xs);
            PENSTOCK_LOADED(v, zs);
            PENSTOCK_ADD_FOUR(a, xs[0], v);
            PENSTOCK_ADD_FOUR(b, zs[0], v);
            PENSTOCK_ADD_FOUR(a, xs[1], v + 4);
            PENSTOCK_ADD_FOUR(b, zs[1], v + 4);
        }
        if (count % 2) {
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, 0), w);
            PENSTOCK_ADD_FOUR(b, penstock_get_f32(z, 0), w);
        }
    }
    PENSTOCK_STORE_FOUR(sums, a);
    PENSTOCK_STORE_FOUR(sums + 4, b);
}

/* Writes up to four sums, with bias and clamped, as elements of `out` from `first` to `end`.
 * Constant indices let compilers keep the sums in registers. */
static inline void penstock_put_sums(int8_t *out, int32_t first, int32_t end, const float *sums,
                                     const float *bias, const float *bounds) {
    const float limits[2] = {bounds[0], bounds[1]}; /* `out` might overlap `bounds` */
    out += first * 4;
    bias += first;
    penstock_put_f32(out, 0, penstock_bounded_f32(sums[0] + bias[0], limits));
    if (first + 1 < end) {
        penstock_put_f32(out, 1, penstock_bounded_f32(sums[1] + bias[1], limits));
    }
    if (first + 2 < end) {
        penstock_put_f32(out, 2, penstock_bounded_f32(sums[2] + bias[2], limits));
    }
    if (first + 3 < end) {
        penstock_put_f32(out, 3, penstock_bounded_f32(sums[3] + bias[3], limits));
    }
}

#endif
