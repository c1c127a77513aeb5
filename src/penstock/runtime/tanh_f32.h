/* tanh_f32: tanh(a), element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/tanh.h. */
#ifndef PENSTOCK_TANH_F32_H
#define PENSTOCK_TANH_F32_H

#include "plain.h"
#include "sigmoid_f32.h"

struct tanh_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void tanh_f32(const struct tanh_f32 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, penstock_tanh(a))
}

#endif
