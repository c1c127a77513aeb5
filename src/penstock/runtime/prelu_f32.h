/* prelu_f32: a, or a * b where a is below zero; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/activations.cc (ApplyPrelu). */
#ifndef PENSTOCK_PRELU_F32_H
#define PENSTOCK_PRELU_F32_H

#include "float_bits.h"
#include "plain.h"

struct prelu_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

/* The bits of the result. */
static inline int32_t prelu_f32_of(int32_t a, int32_t b) {
    const float product = penstock_float_of((uint32_t)a) * penstock_float_of((uint32_t)b);
    return penstock_is_below_zero((uint32_t)a) ? (int32_t)penstock_bits_of(product) : a;
}

PENSTOCK_KERNEL void prelu_f32(const struct prelu_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_SHORT_PAIR(int32_t, s32, prelu_f32_of(a, b))
}

#endif
