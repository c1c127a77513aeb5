/* softmax_s8: exp(x - max) divided by its sum along the last axis (softmax.h).
 *   x  rows of `width` vectors of `depth` elements  int8
 *   y  as x  int8     scale 1/256, zero point -128 */
#ifndef PENSTOCK_SOFTMAX_S8_H
#define PENSTOCK_SOFTMAX_S8_H

#include "softmax.h"

struct softmax_s8 {
    PENSTOCK_SOFTMAX_MEMBERS;
};

PENSTOCK_KERNEL void softmax_s8(const struct softmax_s8 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_SOFTMAX(8, penstock_put_s8)
}

#endif
