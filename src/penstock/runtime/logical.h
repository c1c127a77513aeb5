/* logical: conjunction or disjunction, element by element; inputs may be broadcast.
 *   a, b, y  bool
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/logical_common.cc. */
#ifndef PENSTOCK_LOGICAL_H
#define PENSTOCK_LOGICAL_H

#include "broadcast.h"

struct logical {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t least_true; /* how many of a and b must be true */
};

PENSTOCK_KERNEL void logical(const struct logical *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int8_t, penstock_get_s8, (a != 0) + (b != 0) >= p->least_true)
}

#endif
