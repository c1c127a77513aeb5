/* log_f32: natural logarithm, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/elementwise.cc. */
#ifndef PENSTOCK_LOG_F32_H
#define PENSTOCK_LOG_F32_H

#include "logarithm.h"
#include "plain.h"

struct log_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void log_f32(const struct log_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, penstock_log(a))
}

#endif
