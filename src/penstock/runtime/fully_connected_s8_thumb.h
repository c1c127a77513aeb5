/* fully_connected_s8_thumb: matrix times vector with bias, requantisation and clamp, on cores
 * without long multiplications.
 *   x  (B, I)  int8
 *   y  (B, O)  int8
 * thumb_row.h defines the layout of weights, which contain the bias. */
#ifndef PENSTOCK_FULLY_CONNECTED_S8_THUMB_H
#define PENSTOCK_FULLY_CONNECTED_S8_THUMB_H

#include "thumb_row.h"
#include "view.h"

struct fully_connected_s8_thumb {
    int32_t batches, in_c, out_c;
    int32_t groups, is_signed;
    const int8_t *weights;
};

PENSTOCK_KERNEL void fully_connected_s8_thumb(const struct fully_connected_s8_thumb *p,
                                              const penstock_source *x, const penstock_sink *y,
                                              int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    struct penstock_thumb_row row = {x->base, p->weights, p->in_c, p->groups};
    int8_t *out = y->base;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        (p->is_signed ? penstock_thumb_row_signed : penstock_thumb_row_plain)(&row, out);
        row.row += p->in_c;
        out += p->out_c;
    }
}

#endif
