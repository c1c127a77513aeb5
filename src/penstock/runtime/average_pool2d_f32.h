/* average_pool2d_f32: the mean of floats under a sliding window, clamped.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/pooling.h. */
#ifndef PENSTOCK_AVERAGE_POOL2D_F32_H
#define PENSTOCK_AVERAGE_POOL2D_F32_H

#include "pool.h"

struct average_pool2d_f32 {
    PENSTOCK_POOL_WINDOWS;
    int32_t divisor;     /* of every sum; 0: the number of elements that are not padding */
    const float *bounds; /* least and largest result */
};

PENSTOCK_KERNEL void average_pool2d_f32(const struct average_pool2d_f32 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    const float limits[2] = {p->bounds[0], p->bounds[1]}; /* y might overlap them */
    PENSTOCK_POOL_F32(
        const float count =
            (float)(p->divisor ? p->divisor
                               : (rows.upper - rows.lower) * (columns.upper - columns.lower)),
        0.0f, result += element, penstock_bounded_f32(result / count, limits))
}

#endif
