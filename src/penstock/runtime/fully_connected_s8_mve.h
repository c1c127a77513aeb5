/* fully_connected_s8_mve: matrix times vector with bias, requantisation and clamp, for cores with
 * MVE.
 *   x  (B, I)  int8
 *   y  (B, O)  int8
 * row_tile_mve.h defines the layout of weights and scales, which contain the bias.  Scratch: a copy
 * of a row if its size is not a multiple of the vector size; weights beyond its end are zero. */
#ifndef PENSTOCK_FULLY_CONNECTED_S8_MVE_H
#define PENSTOCK_FULLY_CONNECTED_S8_MVE_H

#include "row_tile_mve.h"
#include "view.h"

struct fully_connected_s8_mve {
    int32_t batches, in_c, out_c, least, most;
    int32_t steps;       /* vectors of a row */
    int32_t eight_words; /* of scales */
    int32_t multiplier, left, is_signed;
    const int8_t *weights;
    const int32_t *scales;
};

/* Computes the outputs of one row; the last outputs that fill no group of eight go through a
 * buffer. */
static void fully_connected_s8_mve_row(const struct fully_connected_s8_mve *p, const int8_t *in,
                                       int8_t *out) {
    const int32_t eights = p->out_c / 8;
    const int32_t rest = p->out_c % 8;
    struct penstock_mve_row row = {in,        p->steps - 1,           p->weights,
                                   p->scales, {p->multiplier, p->left}, eights};
    if (eights > 0) {
        (p->is_signed ? penstock_mve_row_signed : penstock_mve_row_plain)(&row, out);
    }
    if (rest > 0) {
        int8_t eight[8];
        row.weights += eights * 8 * p->steps * PENSTOCK_VECTOR;
        row.scales += eights * p->eight_words;
        row.eights = 1;
        (p->is_signed ? penstock_mve_row_signed : penstock_mve_row_plain)(&row, eight);
        memcpy(out + 8 * eights, eight, (size_t)rest);
    }
}

PENSTOCK_KERNEL void fully_connected_s8_mve(const struct fully_connected_s8_mve *p,
                                            const penstock_source *x, const penstock_sink *y,
                                            int32_t lower, int32_t upper, int8_t *scratch) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c;
        int8_t *out = y->base + batch * p->out_c;
        if (p->in_c % PENSTOCK_VECTOR > 0) {
            penstock_copy_vectors(scratch, in, p->in_c);
            in = scratch;
        }
        fully_connected_s8_mve_row(p, in, out);
        penstock_limit(out, p->least, p->most, p->out_c);
    }
}

#endif
