/* softmax.h: exp(x - max) divided by its sum along the last axis.
 *   x  rows of `width` vectors of `depth` elements  int8
 *   y  as x, of `bits` bits, scale 2^-bits, the lowest element as zero point; `put` writes one
 * exp[d] is the exponential of a difference d to the maximum, in Q0.31.  Computes rows [lower,
 * upper) of y.  Source: TensorFlow Lite, reference/softmax.h. */
#ifndef PENSTOCK_SOFTMAX_H
#define PENSTOCK_SOFTMAX_H

#include "reciprocal.h"
#include "vector_s8.h"
#include "view.h"

/* Members of the parameter structures. */
#define PENSTOCK_SOFTMAX_MEMBERS                                                                  \
    int32_t width, depth;                                                                         \
    const int32_t *exp /* 256 entries */

#define PENSTOCK_SOFTMAX(bits, put)                                                               \
    const int32_t half = 1 << (bits - 1);                                                         \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int8_t *in = penstock_read_row(x, row);                                             \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t w = 0; w < p->width; w++, in += p->depth, out += p->depth * bits / 8) {      \
            const int32_t largest = penstock_largest_s8(in, p->depth, INT8_MIN);                  \
            uint32_t sum = 0; /* Q12.19, at least 1 */                                            \
            for (int32_t c = 0; c < p->depth; c++) {                                              \
                sum += (uint32_t)penstock_rounding_shift(p->exp[largest - in[c]], 12);            \
            }                                                                                     \
            int32_t headroom = 0; /* number of leading zeros */                                   \
            for (uint32_t top = sum; top < UINT32_C(0x80000000); top <<= 1) {                     \
                headroom++;                                                                       \
            }                                                                                     \
            const uint32_t fraction = (sum << headroom) & UINT32_C(0x7fffffff);                   \
            const int32_t scale = penstock_reciprocal((int32_t)fraction);                         \
            for (int32_t c = 0; c < p->depth; c++) {                                              \
                const int32_t part = penstock_high_multiply(scale, p->exp[largest - in[c]]);      \
                const int32_t value = penstock_rounding_shift(part, 12 - headroom + 31 - bits);   \
                put(out, c, penstock_clamp(value - half, -half, half - 1));                       \
            }                                                                                     \
        }                                                                                         \
    }

#endif
