/* extreme_s8: element-wise maximum or minimum; inputs may be broadcast.
 *   a, b, y  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/maximum_minimum.h. */
#ifndef PENSTOCK_EXTREME_S8_H
#define PENSTOCK_EXTREME_S8_H

#include "broadcast.h"

struct extreme_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t larger; /* 1: maximum, 0: minimum */
};

PENSTOCK_KERNEL void extreme_s8(const struct extreme_s8 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int8_t, penstock_get_s8, (a > b) == p->larger ? a : b)
}

#endif
