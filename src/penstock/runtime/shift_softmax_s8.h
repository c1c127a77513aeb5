/* shift_softmax_s8: powers of two of the differences to the maximum, over their sum, along the last
 * axis:
 *     s = (maximum - x + 16) >> 5,   y = (most * 256 / sum of (256 >> s)) >> s
 * The sum is accumulated over groups, and shifted where the maximum so far grows.
 *   x, y  rows of `width` vectors of `depth` elements  int8
 * Computes rows [lower, upper) of y.
 * Source: Deeploy, ITAMax and ITAPartialMax. */
#ifndef PENSTOCK_SHIFT_SOFTMAX_S8_H
#define PENSTOCK_SHIFT_SOFTMAX_S8_H

#include "fixedpoint.h"
#include "vector_s8.h"
#include "view.h"

struct shift_softmax_s8 {
    int32_t width, depth, group, most, out_zero;
};

static inline int32_t shift_softmax_s8_shift(int32_t largest, int32_t x) {
    return (largest - x + 16) >> 5;
}

/* The sum over the groups of a vector; `largest` becomes its maximum. */
static inline int32_t shift_softmax_s8_total(const struct shift_softmax_s8 *p, const int8_t *in,
                                             int32_t *largest) {
    int32_t total = 0;
    for (int32_t first = 0; first < p->depth; first += p->group) {
        const int32_t before = *largest;
        *largest = penstock_largest_s8(in + first, p->group, *largest);
        total >>= shift_softmax_s8_shift(*largest, before);
        for (int32_t c = first; c < first + p->group; c++) {
            total += 256 >> shift_softmax_s8_shift(*largest, in[c]);
        }
    }
    return total;
}

PENSTOCK_KERNEL void shift_softmax_s8(const struct shift_softmax_s8 *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++, in += p->depth, out += p->depth) {
            int32_t largest = INT8_MIN;
            const int32_t inverse = p->most * 256 / shift_softmax_s8_total(p, in, &largest);
            for (int32_t c = 0; c < p->depth; c++) {
                const int32_t found = inverse >> shift_softmax_s8_shift(largest, in[c]);
                out[c] = (int8_t)penstock_clamp(found + p->out_zero, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
