/* relu_f32: clamp to an interval, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.  NaN stays.
 * Source: TensorFlow Lite, micro/kernels/activations_common.cc. */
#ifndef PENSTOCK_RELU_F32_H
#define PENSTOCK_RELU_F32_H

#include "plain.h"

struct relu_f32 {
    int32_t width;
    int32_t bounded;     /* whether there is an upper bound */
    const float *bounds; /* lower and upper */
};

PENSTOCK_KERNEL void relu_f32(const struct relu_f32 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    const float bounds[] = {p->bounds[0], p->bounds[1]}; /* y might overlap them */
    if (p->bounded) {
        PENSTOCK_FOR_EACH_SHORT(float, f32, penstock_bounded_f32(a, bounds))
    } else {
        PENSTOCK_FOR_EACH_SHORT(float, f32, a < bounds[0] ? bounds[0] : a)
    }
}

#endif
