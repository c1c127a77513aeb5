/* floor_div_f32: floor(a / b), element by element; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/internal/reference/floor_div.h. */
#ifndef PENSTOCK_FLOOR_DIV_F32_H
#define PENSTOCK_FLOOR_DIV_F32_H

#include "integral.h"
#include "plain.h"

struct floor_div_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void floor_div_f32(const struct floor_div_f32 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(float, f32, penstock_floor(a / b))
}

#endif
