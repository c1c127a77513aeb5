/* floor_f32: floor(a), element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/floor.h. */
#ifndef PENSTOCK_FLOOR_F32_H
#define PENSTOCK_FLOOR_F32_H

#include "integral.h"
#include "plain.h"

struct floor_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void floor_f32(const struct floor_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, penstock_floor(a))
}

#endif
