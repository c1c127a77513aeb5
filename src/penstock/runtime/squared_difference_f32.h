/* squared_difference_f32: (a - b)^2, element by element; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/squared_difference.cc. */
#ifndef PENSTOCK_SQUARED_DIFFERENCE_F32_H
#define PENSTOCK_SQUARED_DIFFERENCE_F32_H

#include "plain.h"

struct squared_difference_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void squared_difference_f32(const struct squared_difference_f32 *p,
                                            const penstock_source *x, const penstock_sink *y,
                                            int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_SHORT_PAIR(float, f32, (a - b) * (a - b))
}

#endif
