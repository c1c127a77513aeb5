/* partial_product_s8_dsp: products of vectors and a matrix, added to sums, for cores with the DSP
 * extension.
 *   s  (.., O)  int32    x  (.., C)  int8     C a multiple of 4
 *   y  (.., O)  int32                         y may have the address of s
 * The inputs are s and x, or x alone if sums begin with a bias.  Computes rows [lower, upper) of y.
 * products_dsp.h defines the layout of the weights of four channels of y.  Weights that pad the last
 * four are arbitrary. */
#ifndef PENSTOCK_PARTIAL_PRODUCT_S8_DSP_H
#define PENSTOCK_PARTIAL_PRODUCT_S8_DSP_H

#include "products_dsp.h"
#include "view.h"
#include "wide.h"

struct partial_product_s8_dsp {
    int32_t width; /* vectors in a row */
    int32_t in_c, out_c;
    int32_t begins; /* 1: the sums begin with a bias */
    const int8_t *weights;
    const int32_t *bias; /* one per channel of y if `begins`, else unused */
};

/* Sums of one vector: all channels of y. */
static void penstock_partial_products(const struct partial_product_s8_dsp *p, const int8_t *sums,
                                      const int8_t *x, int8_t *out) {
    const int8_t *w = p->weights;
    const int32_t rest = p->out_c % 4;
    int32_t four[4];
    for (int32_t o = 0; o < p->out_c - rest; o += 4, w += 4 * p->in_c) {
        memcpy(four, sums + 4 * o, sizeof four);
        penstock_add_products(x, w, x + p->in_c, four);
        memcpy(out + 4 * o, four, sizeof four);
    }
    if (rest > 0) {
        const size_t bytes = (size_t)rest * sizeof *four;
        memcpy(four, sums + 4 * (p->out_c - rest), bytes);
        memset(four + rest, 0, sizeof four - bytes);
        penstock_add_products(x, w, x + p->in_c, four);
        memcpy(out + 4 * (p->out_c - rest), four, bytes);
    }
}

PENSTOCK_KERNEL void partial_product_s8_dsp(const struct partial_product_s8_dsp *p,
                                            const penstock_source *x, const penstock_sink *y,
                                            int32_t lower, int32_t upper) {
    const penstock_source *vectors = p->begins ? x : x + 1;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *sums = p->begins ? NULL : penstock_read_row(x, row);
        const int8_t *in = penstock_read_row(vectors, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->width; column++, in += p->in_c) {
            const int32_t at = 4 * column * p->out_c;
            const int8_t *from = p->begins ? (const int8_t *)p->bias : sums + at;
            penstock_partial_products(p, from, in, out + at);
        }
    }
}

#endif
