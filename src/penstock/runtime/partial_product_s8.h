/* partial_product_s8: products of vectors and a matrix, added to sums.
 *   s  (.., O)  int32    x  (.., C)  int8
 *   y  (.., O)  int32    w  (O, C)   int8     y may have the address of s
 * The inputs are s and x, or x alone if sums begin with a bias.  Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_PARTIAL_PRODUCT_S8_H
#define PENSTOCK_PARTIAL_PRODUCT_S8_H

#include "view.h"
#include "wide.h"

struct partial_product_s8 {
    int32_t width; /* vectors in a row */
    int32_t in_c, out_c;
    int32_t begins; /* 1: the sums begin with a bias */
    const int8_t *weights;
    const int32_t *bias; /* one per channel of y if `begins`, else unused */
};

PENSTOCK_KERNEL void partial_product_s8(const struct partial_product_s8 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    const penstock_source *vectors = p->begins ? x : x + 1;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *sums = p->begins ? NULL : penstock_read_row(x, row);
        const int8_t *in = penstock_read_row(vectors, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->width; column++, in += p->in_c) {
            const int8_t *w = p->weights;
            for (int32_t o = 0; o < p->out_c; o++, w += p->in_c) {
                const int32_t at = column * p->out_c + o;
                int32_t sum = sums ? penstock_get_s32(sums, at) : p->bias[o];
                for (int32_t c = 0; c < p->in_c; c++) {
                    sum += in[c] * w[c];
                }
                penstock_put_s32(out, at, sum);
            }
        }
    }
}

#endif
