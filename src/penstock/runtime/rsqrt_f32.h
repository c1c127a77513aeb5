/* rsqrt_f32: 1 / sqrt(a), each operation correctly rounded, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/elementwise.cc. */
#ifndef PENSTOCK_RSQRT_F32_H
#define PENSTOCK_RSQRT_F32_H

#include "plain.h"
#include "square_root.h"

struct rsqrt_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void rsqrt_f32(const struct rsqrt_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, 1.0f / penstock_square_root(a))
}

#endif
