/* running_product_s8: running sum over rows of products with weights, starting at the bias.
 * x  (1, H, W, C)  int8     w  (O, depth)  int8, for row r from column r * row on
 *   y  (1, H, 1, O)  int32    b  (O)         int32
 * Computes rows [lower, upper) of y, continuing from row lower - 1 of y. */
#ifndef PENSTOCK_RUNNING_PRODUCT_S8_H
#define PENSTOCK_RUNNING_PRODUCT_S8_H

#include "running.h"

struct running_product_s8 {
    int32_t row; /* elements of a row of x, W * C */
    int32_t depth, out_c, in_zero;
    const int8_t *weights;
    const int32_t *bias;
};

PENSTOCK_KERNEL void running_product_s8(const struct running_product_s8 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t o = 0; o < p->out_c; o++) {
            const int8_t *w = p->weights + o * p->depth + row * p->row;
            int32_t sum = before ? penstock_get_s32(before, o) : p->bias[o];
            for (int32_t k = 0; k < p->row; k++) {
                sum += (in[k] - p->in_zero) * w[k];
            }
            penstock_put_s32(out, o, sum);
        }
    }
}

#endif
