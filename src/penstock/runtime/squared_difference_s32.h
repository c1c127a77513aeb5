/* squared_difference_s32: (a - b)^2 modulo 2^32, element by element; inputs may be broadcast.
 *   a, b, y  int32_t
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/squared_difference.cc. */
#ifndef PENSTOCK_SQUARED_DIFFERENCE_S32_H
#define PENSTOCK_SQUARED_DIFFERENCE_S32_H

#include "plain.h"

/* d^2 modulo 2^32. */
static inline int32_t penstock_squared(uint32_t d) {
    return (int32_t)(d * d);
}

struct squared_difference_s32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void squared_difference_s32(const struct squared_difference_s32 *p,
                                            const penstock_source *x, const penstock_sink *y,
                                            int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(int32_t, s32, penstock_squared((uint32_t)a - (uint32_t)b))
}

#endif
