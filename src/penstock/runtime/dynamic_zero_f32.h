/* dynamic_zero_f32: the zero point of int8 steps of floats from a to b, element by element; inputs
 * may be broadcast.
 *   a, b, y  float  a at most 0, b at least 0
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, AsymmetricQuantizeFloats (portable_tensor_utils.cc). */
#ifndef PENSTOCK_DYNAMIC_ZERO_F32_H
#define PENSTOCK_DYNAMIC_ZERO_F32_H

#include "dynamic.h"
#include "plain.h"

struct dynamic_zero_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void dynamic_zero_f32(const struct dynamic_zero_f32 *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(float, f32, penstock_dynamic_zero(a, b))
}

#endif
