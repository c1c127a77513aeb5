/* max_pool2d_f32: the largest float under a sliding window, clamped.  NaN is passed over.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/pooling.h. */
#ifndef PENSTOCK_MAX_POOL2D_F32_H
#define PENSTOCK_MAX_POOL2D_F32_H

#include "pool.h"

struct max_pool2d_f32 {
    PENSTOCK_POOL_WINDOWS;
    const float *bounds; /* least and largest result */
};

PENSTOCK_KERNEL void max_pool2d_f32(const struct max_pool2d_f32 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    const float limits[2] = {p->bounds[0], p->bounds[1]}; /* y might overlap them */
    PENSTOCK_POOL_F32((void)0, limits[0], result = result < element ? element : result,
                      penstock_bounded_f32(result, limits))
}

#endif
