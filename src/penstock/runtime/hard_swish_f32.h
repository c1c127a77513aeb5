/* hard_swish_f32: a * min(max(a + 3, 0), 6) / 6, each operation rounded, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/hard_swish.h. */
#ifndef PENSTOCK_HARD_SWISH_F32_H
#define PENSTOCK_HARD_SWISH_F32_H

#include "plain.h"

struct hard_swish_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void hard_swish_f32(const struct hard_swish_f32 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    const float bounds[] = {0.0f, 6.0f};
    PENSTOCK_FOR_EACH_SHORT(float, f32,
                            penstock_product(a, penstock_bounded_f32(a + 3.0f, bounds)) / 6.0f)
}

#endif
