/* maximum_s32: the larger of two elements; inputs may be broadcast.
 *   a, b, y  int32_t
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/maximum_minimum.h. */
#ifndef PENSTOCK_MAXIMUM_S32_H
#define PENSTOCK_MAXIMUM_S32_H

#include "plain.h"

struct maximum_s32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void maximum_s32(const struct maximum_s32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(int32_t, s32, a > b ? a : b)
}

#endif
