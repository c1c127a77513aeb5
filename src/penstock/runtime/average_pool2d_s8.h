/* average_pool2d_s8: the mean of a sliding window without padding elements.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/integer_ops/pooling.h. */
#ifndef PENSTOCK_AVERAGE_POOL2D_S8_H
#define PENSTOCK_AVERAGE_POOL2D_S8_H

#include "fixedpoint.h"
#include "pool.h"

/* The largest count whose reciprocal is exact: sums are at most 128 * count + count / 2, and sum *
 * count must stay below 2^24. */
#define PENSTOCK_RECIPROCAL_COUNT 361

struct average_pool2d_s8 {
    PENSTOCK_POOL_MEMBERS;
};

/* sum / count for a sum of `count` bytes, rounded half up; `reciprocal`: floor(2^24 / count) + 1,
 * or 0 if the count is too large for it. */
static inline int32_t average_pool2d_s8_mean(uint32_t sum, uint32_t count, uint32_t reciprocal) {
    const uint32_t rounded = sum + count / 2;
    return (int32_t)(reciprocal ? rounded * reciprocal >> 24 : rounded / count);
}

PENSTOCK_KERNEL void average_pool2d_s8(const struct average_pool2d_s8 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_POOL(
        const uint32_t count =
            (uint32_t)((rows.upper - rows.lower) * (columns.upper - columns.lower));
        const uint32_t reciprocal = count <= PENSTOCK_RECIPROCAL_COUNT ? (1u << 24) / count + 1 : 0,
        0, result += *in,
        result < 0 ? -average_pool2d_s8_mean((uint32_t)-result, count, reciprocal)
                   : average_pool2d_s8_mean((uint32_t)result, count, reciprocal))
}

#endif
