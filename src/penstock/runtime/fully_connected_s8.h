/* fully_connected_s8: matrix times vector with bias, requantisation and clamp.
 *   x  (B, I)  int8     w  (O, I)  int8
 *   y  (B, O)  int8     b  (O)     int32
 * Source: TensorFlow Lite, reference/integer_ops/fully_connected.h. */
#ifndef PENSTOCK_FULLY_CONNECTED_S8_H
#define PENSTOCK_FULLY_CONNECTED_S8_H

#include "certified.h"
#include "view.h"

struct fully_connected_s8 {
    int32_t batches, in_c, out_c, in_zero, out_zero, least, most;
    int32_t single_rounding; /* 1: single rounding, as in newer LiteRT */
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multiplier; /* one per output, as shift */
    const int8_t *shift;
    const int32_t *forms; /* replaces both if not NULL; see certified.h */
};

PENSTOCK_KERNEL void fully_connected_s8(const struct fully_connected_s8 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c;
        int8_t *out = y->base + batch * p->out_c;
        for (int32_t o = 0; o < p->out_c; o++) {
            const int8_t *w = p->weights + o * p->in_c;
            int32_t sum = p->bias[o];
            for (int32_t c = 0; c < p->in_c; c++) {
                sum += (in[c] - p->in_zero) * w[c];
            }
            sum = p->forms ? penstock_certified(sum, p->forms + 6 * o)
                           : penstock_multiply_rounded(sum, p->multiplier[o], p->shift[o],
                                                       p->single_rounding) + p->out_zero;
            out[o] = (int8_t)penstock_clamp(sum, p->least, p->most);
        }
    }
}

#endif
