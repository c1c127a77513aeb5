/* max_pool2d_s8: the largest element of a sliding window, clamped.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/integer_ops/pooling.h. */
#ifndef PENSTOCK_MAX_POOL2D_S8_H
#define PENSTOCK_MAX_POOL2D_S8_H

#include "fixedpoint.h"
#include "pool.h"

struct max_pool2d_s8 {
    PENSTOCK_POOL_MEMBERS;
};

PENSTOCK_KERNEL void max_pool2d_s8(const struct max_pool2d_s8 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_POOL((void)0, INT8_MIN, result = *in > result ? *in : result, result)
}

#endif
