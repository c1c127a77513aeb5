/* erfc_f32: the complementary error function, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_ERFC_F32_H
#define PENSTOCK_ERFC_F32_H

#include "complementary_error.h"
#include "plain.h"

struct erfc_f32 {
    int32_t width;
};

PENSTOCK_KERNEL void erfc_f32(const struct erfc_f32 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, penstock_erfc(a))
}

#endif
