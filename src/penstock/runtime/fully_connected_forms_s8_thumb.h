/* fully_connected_forms_s8_thumb: matrix times vector with bias, requantisation and clamp, on cores
 * without long multiplications.  Each output is requantised in a form of its own.
 *   x  (B, I)  int8
 *   y  (B, O)  int8
 * thumb_row.h defines the layout of the weights of four outputs, without scales; weights beyond the
 * last output are arbitrary. */
#ifndef PENSTOCK_FULLY_CONNECTED_FORMS_S8_THUMB_H
#define PENSTOCK_FULLY_CONNECTED_FORMS_S8_THUMB_H

#include "certified.h"
#include "thumb_row.h"
#include "view.h"

struct fully_connected_forms_s8_thumb {
    int32_t batches, in_c, out_c, least, most;
    const int8_t *weights;
    const int32_t *bias;  /* corrected for the zero point of x */
    const int32_t *forms; /* see certified.h */
};

PENSTOCK_KERNEL void fully_connected_forms_s8_thumb(const struct fully_connected_forms_s8_thumb *p,
                                                    const penstock_source *x,
                                                    const penstock_sink *y, int32_t lower,
                                                    int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        struct penstock_thumb_row row = {x->base + batch * p->in_c, p->weights, p->in_c, 1};
        int8_t *out = y->base + batch * p->out_c;
        for (int32_t o = 0; o < p->out_c; o += 4) {
            const int32_t count = p->out_c - o < 4 ? p->out_c - o : 4;
            int32_t sums[4];
            penstock_thumb_row_sums(&row, sums);
            penstock_certified_outputs(sums, p->bias + o, p->forms + 6 * o, count, p->least,
                                       p->most, out + o);
            row.weights += 4 * p->in_c;
        }
    }
}

#endif
