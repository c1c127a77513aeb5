/* square_f32: a^2, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/elementwise.cc. */
#ifndef PENSTOCK_SQUARE_F32_H
#define PENSTOCK_SQUARE_F32_H

#include "plain.h"

struct square_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void square_f32(const struct square_f32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_SHORT(float, f32, a * a)
}

#endif
