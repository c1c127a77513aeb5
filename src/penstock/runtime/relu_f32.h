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

/* The clamped number. */
static inline float relu_f32_clamp(const struct relu_f32 *p, float a) {
    const float raised = a < p->bounds[0] ? p->bounds[0] : a;
    return p->bounded && raised > p->bounds[1] ? p->bounds[1] : raised;
}

PENSTOCK_KERNEL void relu_f32(const struct relu_f32 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, relu_f32_clamp(p, a))
}

#endif
