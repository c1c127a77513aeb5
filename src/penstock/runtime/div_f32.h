/* div_f32: a / b, element by element, with a clamp; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/div.h. */
#ifndef PENSTOCK_DIV_F32_H
#define PENSTOCK_DIV_F32_H

#include "plain.h"

struct div_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
    const float *bounds; /* smallest and largest result */
};

PENSTOCK_KERNEL void div_f32(const struct div_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    const float bounds[] = {p->bounds[0], p->bounds[1]};
    PENSTOCK_FOR_EACH_SHORT_PAIR(float, f32, penstock_bounded_f32(a / b, bounds))
}

#endif
