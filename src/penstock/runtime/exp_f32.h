/* exp_f32: exp(a), element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/exp.cc. */
#ifndef PENSTOCK_EXP_F32_H
#define PENSTOCK_EXP_F32_H

#include "exponential.h"
#include "plain.h"

struct exp_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void exp_f32(const struct exp_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, penstock_exp(a))
}

#endif
