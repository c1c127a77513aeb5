/* ratio_softmax_s8: most * p / (sum of p) along the last axis, where p = powers[maximum - x].
 *   x, y  rows of `width` vectors of `depth` elements  int8
 * Computes rows [lower, upper) of y.
 * Source: Deeploy, iSoftmax. */
#ifndef PENSTOCK_RATIO_SOFTMAX_S8_H
#define PENSTOCK_RATIO_SOFTMAX_S8_H

#include "fixedpoint.h"
#include "vector_s8.h"
#include "view.h"

struct ratio_softmax_s8 {
    int32_t width, depth, most, out_zero;
    const int32_t *powers; /* 256 */
};

PENSTOCK_KERNEL void ratio_softmax_s8(const struct ratio_softmax_s8 *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++, in += p->depth, out += p->depth) {
            const int32_t largest = penstock_largest_s8(in, p->depth, INT8_MIN);
            int32_t total = 0;
            for (int32_t c = 0; c < p->depth; c++) {
                total += p->powers[largest - in[c]];
            }
            for (int32_t c = 0; c < p->depth; c++) {
                const int32_t ratio = p->powers[largest - in[c]] * p->most / total;
                out[c] = (int8_t)penstock_clamp(ratio + p->out_zero, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
