/* softmax_s8_s16: exp(x - max) divided by its sum along the last axis.
 *   x  rows of `width` vectors of `depth` elements  int8
 *   y  as x  int16, scale 1/65536, zero point -32768
 * exp[d] is the exponential of a difference d to the maximum, in Q0.31.  Computes rows [lower,
 * upper) of y. Source: TensorFlow Lite, reference/softmax.h. */
#ifndef PENSTOCK_SOFTMAX_S8_S16_H
#define PENSTOCK_SOFTMAX_S8_S16_H

#include "reciprocal.h"
#include "view.h"
#include "wide.h"

struct softmax_s8_s16 {
    int32_t width, depth;
    const int32_t *exp; /* 256 entries */
};

PENSTOCK_KERNEL void softmax_s8_s16(const struct softmax_s8_s16 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++, in += p->depth, out += 2 * p->depth) {
            int32_t largest = INT8_MIN;
            for (int32_t c = 0; c < p->depth; c++) {
                largest = in[c] > largest ? in[c] : largest;
            }
            uint32_t sum = 0; /* Q12.19, at least 1 */
            for (int32_t c = 0; c < p->depth; c++) {
                sum += (uint32_t)penstock_rounding_shift(p->exp[largest - in[c]], 12);
            }
            int32_t headroom = 0; /* number of leading zeros */
            for (uint32_t top = sum; top < UINT32_C(0x80000000); top <<= 1) {
                headroom++;
            }
            const uint32_t fraction = (sum << headroom) & UINT32_C(0x7fffffff);
            const int32_t scale = penstock_reciprocal((int32_t)fraction);
            for (int32_t c = 0; c < p->depth; c++) {
                const int32_t part = penstock_high_multiply(scale, p->exp[largest - in[c]]);
                const int32_t value =
                    penstock_rounding_shift(part, 12 - headroom + 31 - 16) + INT16_MIN;
                penstock_put_s16(out, c, penstock_clamp(value, INT16_MIN, INT16_MAX));
            }
        }
    }
}

#endif
