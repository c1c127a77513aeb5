/* floor_div_s32: floor(a / b), element by element; inputs may be broadcast.
 *   a, b, y  int32_t  0 where b is 0
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/internal/reference/floor_div.h. */
#ifndef PENSTOCK_FLOOR_DIV_S32_H
#define PENSTOCK_FLOOR_DIV_S32_H

#include "floor_divide.h"
#include "plain.h"

struct floor_div_s32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void floor_div_s32(const struct floor_div_s32 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(int32_t, s32, penstock_floor_divide(a, b))
}

#endif
