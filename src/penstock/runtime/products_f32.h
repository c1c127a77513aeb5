/* products_f32.h: sums of products of floats, for four outputs at a time.
 * Every product and every sum is rounded, in the order of the inputs, so that results are the same
 * on every processor. */
#ifndef PENSTOCK_PRODUCTS_F32_H
#define PENSTOCK_PRODUCTS_F32_H

#include "real.h"

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

/* Adds `count` products to each of four sums; the weights of each input, of `bytes` bytes, are next
 * to each other. */
static inline void penstock_add_products_f32(const int8_t *x, const int8_t *weights, int32_t bytes,
                                             int32_t count, float *sums) {
    PENSTOCK_LOAD_FOUR(a, sums);
    int32_t c = 0;
    if (PENSTOCK_NARROW_WEIGHTS && bytes == 1) {
        for (; c < count; c++, weights += 4) {
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, c), weights);
        }
    } else {
        const float *w = PENSTOCK_FLOATS(weights);
        for (; c + 1 < count; c += 2, w += 8) {
            const float first = penstock_get_f32(x, c);
            const float second = penstock_get_f32(x, c + 1);
            PENSTOCK_ADD_FOUR(a, first, w);
            PENSTOCK_ADD_FOUR(a, second, w + 4);
        }
        if (c < count) {
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, c), w);
        }
    }
    PENSTOCK_STORE_FOUR(sums, a);
}

/* The same for two vectors of inputs; the sums of the second follow those of the first. */
static inline void penstock_add_products_of_two_f32(const int8_t *x, const int8_t *z,
                                                    const int8_t *weights, int32_t bytes,
                                                    int32_t count, float *sums) {
    PENSTOCK_LOAD_FOUR(a, sums);
    PENSTOCK_LOAD_FOUR(b, sums + 4);
    int32_t c = 0;
    if (PENSTOCK_NARROW_WEIGHTS && bytes == 1) {
        for (; c < count; c++, weights += 4) {
            const float w[4] = {weights[0], weights[1], weights[2], weights[3]};
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, c), w);
            PENSTOCK_ADD_FOUR(b, penstock_get_f32(z, c), w);
        }
    } else {
        const float *w = PENSTOCK_FLOATS(weights);
        for (; c + 1 < count; c += 2, w += 8) {
            const float x0 = penstock_get_f32(x, c);
            const float x1 = penstock_get_f32(x, c + 1);
            const float z0 = penstock_get_f32(z, c);
            const float z1 = penstock_get_f32(z, c + 1);
            PENSTOCK_ADD_FOUR(a, x0, w);
            PENSTOCK_ADD_FOUR(b, z0, w);
            PENSTOCK_ADD_FOUR(a, x1, w + 4);
            PENSTOCK_ADD_FOUR(b, z1, w + 4);
        }
        if (c < count) {
            PENSTOCK_ADD_FOUR(a, penstock_get_f32(x, c), w);
            PENSTOCK_ADD_FOUR(b, penstock_get_f32(z, c), w);
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
