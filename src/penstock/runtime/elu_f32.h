/* elu_f32: a, or exp(a) - 1 where a is negative, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/internal/reference/elu.h. */
#ifndef PENSTOCK_ELU_F32_H
#define PENSTOCK_ELU_F32_H

#include "exponential.h"
#include "plain.h"

struct elu_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void elu_f32(const struct elu_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, a < 0.0f ? penstock_exp_minus_one(a) : a)
}

#endif
