/* minimum_s32: the smaller of two elements; inputs may be broadcast.
 *   a, b, y  int32_t
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/maximum_minimum.h. */
#ifndef PENSTOCK_MINIMUM_S32_H
#define PENSTOCK_MINIMUM_S32_H

#include "plain.h"

struct minimum_s32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void minimum_s32(const struct minimum_s32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(int32_t, s32, a < b ? a : b)
}

#endif
