/* maximum_f32: the larger of two elements; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/maximum_minimum.h. */
#ifndef PENSTOCK_MAXIMUM_F32_H
#define PENSTOCK_MAXIMUM_F32_H

#include "plain.h"

struct maximum_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void maximum_f32(const struct maximum_f32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_SHORT_PAIR(float, f32, a > b ? a : b)
}

#endif
