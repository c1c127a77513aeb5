/* neg_s32: -a modulo 2^32, element by element.
 *   x, y  int32_t  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/neg.h. */
#ifndef PENSTOCK_NEG_S32_H
#define PENSTOCK_NEG_S32_H

#include "plain.h"

struct neg_s32 {
    int32_t width;
};

PENSTOCK_KERNEL void neg_s32(const struct neg_s32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(int32_t, s32, (int32_t)(0U - (uint32_t)a))
}

#endif
