/* softmax_s8_s16: exp(x - max) divided by its sum along the last axis (softmax.h).
 *   x  rows of `width` vectors of `depth` elements  int8
 *   y  as x  int16    scale 1/65536, zero point -32768 */
#ifndef PENSTOCK_SOFTMAX_S8_S16_H
#define PENSTOCK_SOFTMAX_S8_S16_H

#include "softmax.h"
#include "wide.h"

struct softmax_s8_s16 {
    PENSTOCK_SOFTMAX_MEMBERS;
};

PENSTOCK_KERNEL void softmax_s8_s16(const struct softmax_s8_s16 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_SOFTMAX(16, penstock_put_s16)
}

#endif
