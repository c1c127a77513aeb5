/* average_pool2d_u8: the mean of a sliding window without padding elements, with halves rounded up,
 * as the mean of uint8 elements is in the reference; the elements here are less by 128.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/pooling.h. */
#ifndef PENSTOCK_AVERAGE_POOL2D_U8_H
#define PENSTOCK_AVERAGE_POOL2D_U8_H

#include "fixedpoint.h"
#include "pool.h"

struct average_pool2d_u8 {
    PENSTOCK_POOL_MEMBERS;
};

PENSTOCK_KERNEL void average_pool2d_u8(const struct average_pool2d_u8 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_POOL(
        const int32_t count = (rows.upper - rows.lower) * (columns.upper - columns.lower),
        0, result += *in,
        (result > 0 ? result + count / 2 : result - (count - 1) / 2) / count)
}

#endif
