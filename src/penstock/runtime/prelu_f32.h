/* prelu_f32: a, or a * b where a is below zero; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/activations.cc (ApplyPrelu). */
#ifndef PENSTOCK_PRELU_F32_H
#define PENSTOCK_PRELU_F32_H

#include "plain.h"

struct prelu_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void prelu_f32(const struct prelu_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_SHORT_PAIR(float, f32, a < 0.0f ? a * b : a)
}

#endif
