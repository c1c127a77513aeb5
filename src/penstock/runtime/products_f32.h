/* products_f32.h: sums of products of floats, for four outputs at a time.
 * Every product and every sum is rounded, in the order of the inputs, so that results are the same
 * on every processor. */
#ifndef PENSTOCK_PRODUCTS_F32_H
#define PENSTOCK_PRODUCTS_F32_H

#include "real.h"

/* Adds `count` products to each of four sums; the weights of each input are next to each other. */
static inline void penstock_add_products_f32(const int8_t *x, const float *w, int32_t count,
                                         float *sums) {
    float sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    for (int32_t c = 0; c < count; c++, w += 4) {
        const float a = penstock_get_f32(x, c);
        sum0 += penstock_product(a, w[0]);
        sum1 += penstock_product(a, w[1]);
        sum2 += penstock_product(a, w[2]);
        sum3 += penstock_product(a, w[3]);
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* Writes up to four sums, with bias and clamped, as elements of `out` from `first` to `end`. */
static inline void penstock_put_sums(int8_t *out, int32_t first, int32_t end, const float *sums,
                                     const float *bias, const float *bounds) {
    for (int32_t o = first; o < end && o < first + 4; o++) {
        penstock_put_f32(out, o, penstock_bounded_f32(sums[o - first] + bias[o], bounds));
    }
}

#endif
