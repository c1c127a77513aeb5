/* wide_outputs_s8: the outputs of a fully connected layer whose weights exceed int8, as those of
 * uint8 less their zero point.
 *   x  (B, I)  int8
 *   y  (B, O)  int8     the other outputs are left as they are
 * `wide_weights` has the weights of `wide` outputs, (wide, I); `wide_places` has the index of each
 * in y.
 * Source: TensorFlow Lite, reference/fully_connected.h. */
#ifndef PENSTOCK_WIDE_OUTPUTS_S8_H
#define PENSTOCK_WIDE_OUTPUTS_S8_H

#include "certified.h"
#include "view.h"

struct wide_outputs_s8 {
    int32_t batches, in_c, out_c, in_zero, least, most;
    int32_t wide;
    const int16_t *wide_weights;
    const int32_t *wide_bias;
    const int32_t *wide_forms; /* see certified.h */
    const int32_t *wide_places;
};

PENSTOCK_KERNEL void wide_outputs_s8(const struct wide_outputs_s8 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c;
        int8_t *out = y->base + batch * p->out_c;
        for (int32_t k = 0; k < p->wide; k++) {
            const int16_t *w = p->wide_weights + k * p->in_c;
            int32_t sum = p->wide_bias[k];
            for (int32_t c = 0; c < p->in_c; c++) {
                sum += (in[c] - p->in_zero) * w[c];
            }
            sum = penstock_certified(sum, p->wide_forms + 6 * k);
            out[p->wide_places[k]] = (int8_t)penstock_clamp(sum, p->least, p->most);
        }
    }
}

#endif
