/* fully_connected_forms_s8_dsp: matrix times vector with bias, requantisation and clamp, for cores
 * with the DSP extension.  Each output is requantised in a form of its own.
 *   x  (B, I)  int8     I a multiple of 4
 *   y  (B, O)  int8
 * products_dsp.h defines the layout of the weights of four outputs; weights beyond the last output
 * are arbitrary. */
#ifndef PENSTOCK_FULLY_CONNECTED_FORMS_S8_DSP_H
#define PENSTOCK_FULLY_CONNECTED_FORMS_S8_DSP_H

#include "certified.h"
#include "products_dsp.h"
#include "view.h"

struct fully_connected_forms_s8_dsp {
    int32_t batches, in_c, out_c, least, most;
    const int8_t *weights;
    const int32_t *bias;  /* corrected for the zero point of x */
    const int32_t *forms; /* see certified.h */
};

PENSTOCK_KERNEL void fully_connected_forms_s8_dsp(const struct fully_connected_forms_s8_dsp *p,
                                                  const penstock_source *x, const penstock_sink *y,
                                                  int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c;
        int8_t *out = y->base + batch * p->out_c;
        for (int32_t o = 0; o < p->out_c; o += 4) {
            const int32_t count = p->out_c - o < 4 ? p->out_c - o : 4;
            int32_t sums[4] = {0, 0, 0, 0};
            penstock_add_products(in, p->weights + o * p->in_c, in + p->in_c, sums);
            penstock_certified_outputs(sums, p->bias + o, p->forms + 6 * o, count, p->least,
                                       p->most, out + o);
        }
    }
}

#endif
