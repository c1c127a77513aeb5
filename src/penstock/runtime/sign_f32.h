/* sign_f32: 1, 0 or -1 by the sign of a, element by element; 0 and NaN stay.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_SIGN_F32_H
#define PENSTOCK_SIGN_F32_H

#include "plain.h"

struct sign_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void sign_f32(const struct sign_f32 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a)
}

#endif
