/* fully_connected_s8_dsp: matrix times vector with bias, requantisation and clamp, for cores with
 * the DSP extension.
 *   x  (B, I)  int8     I a multiple of 4
 *   y  (B, O)  int8
 * tile.h defines the layout of weights and scales, which contain the bias. */
#ifndef PENSTOCK_FULLY_CONNECTED_S8_DSP_H
#define PENSTOCK_FULLY_CONNECTED_S8_DSP_H

#include "fixedpoint.h"
#include "row_tile.h"
#include "view.h"

struct fully_connected_s8_dsp {
    int32_t batches, in_c, out_c, least, most;
    int32_t shift, is_signed;
    const int8_t *weights;
    const int32_t *scales;
};

/* Computes the outputs of one row. */
static void fully_connected_s8_dsp_row(const struct fully_connected_s8_dsp *p, const int8_t *in,
                                       int8_t *out) {
    const int32_t quads = p->out_c / 4;
    const int32_t rest = p->out_c % 4;
    struct penstock_tile tile = {in, p->weights, p->scales, p->in_c / 2, quads, p->shift};
    if (quads > 0) {
        (p->is_signed ? penstock_row_signed : penstock_row_plain)(&tile, out);
    }
    if (rest > 0) {
        int8_t four[4];
        tile.weights += 4 * quads * p->in_c;
        tile.scales += 13 * quads;
        tile.quads = 1;
        (p->is_signed ? penstock_row_signed : penstock_row_plain)(&tile, four);
        for (int32_t o = 0; o < rest; o++) {
            out[4 * quads + o] = four[o];
        }
    }
}

PENSTOCK_KERNEL void fully_connected_s8_dsp(const struct fully_connected_s8_dsp *p,
                                            const penstock_source *x, const penstock_sink *y,
                                            int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        int8_t *out = y->base + batch * p->out_c;
        fully_connected_s8_dsp_row(p, x->base + batch * p->in_c, out);
        if (p->least > -128 || p->most < 127) {
            for (int32_t o = 0; o < p->out_c; o++) {
                out[o] = (int8_t)penstock_clamp(out[o], p->least, p->most);
            }
        }
    }
}

#endif
