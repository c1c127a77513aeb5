/* neg_f32: -a, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/neg.h. */
#ifndef PENSTOCK_NEG_F32_H
#define PENSTOCK_NEG_F32_H

#include "plain.h"

struct neg_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void neg_f32(const struct neg_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_SHORT(float, f32, -a)
}

#endif
