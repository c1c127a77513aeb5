/* fully_connected_forms_s8_mve: matrix times vector with bias, requantisation and clamp, for cores
 * with MVE.  Each output is requantised in a form of its own.
 *   x  (B, I)  int8
 *   y  (B, O)  int8
 * row_tile_mve.h defines the layout of weights; those beyond the last input are zero. */
#ifndef PENSTOCK_FULLY_CONNECTED_FORMS_S8_MVE_H
#define PENSTOCK_FULLY_CONNECTED_FORMS_S8_MVE_H

#include "certified.h"
#include "row_tile_mve.h"
#include "view.h"

struct fully_connected_forms_s8_mve {
    int32_t batches, in_c, out_c, least, most;
    int32_t steps, rest; /* whole vectors of a row, and bytes beyond them */
    const int8_t *weights;
    const int32_t *bias;  /* corrected for the zero point of x */
    const int32_t *forms; /* see certified.h */
};

/* Sums of eight outputs of a row.  `last` is the vector of bytes beyond the whole vectors. */
static void fully_connected_forms_s8_mve_sums(const struct fully_connected_forms_s8_mve *p,
                                              const int8_t *in, const int8_t *last,
                                              const int8_t *weights, int32_t *sums) {
    if (p->steps > 0) {
        const struct penstock_mve_row row = {in, p->steps - 1, weights, NULL, {0, 0}, 1};
        penstock_mve_row_sums(&row, sums);
    }
    if (p->rest > 0) {
        int32_t rest[8];
        const struct penstock_mve_row row = {last, 0, weights + 8 * p->steps * PENSTOCK_VECTOR,
                                             NULL, {0, 0}, 1};
        penstock_mve_row_sums(&row, rest);
        for (int32_t k = 0; k < 8; k++) {
            sums[k] = p->steps > 0 ? sums[k] + rest[k] : rest[k];
        }
    }
}

PENSTOCK_KERNEL void fully_connected_forms_s8_mve(const struct fully_connected_forms_s8_mve *p,
                                                  const penstock_source *x, const penstock_sink *y,
                                                  int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    const int32_t step_bytes = 8 * PENSTOCK_VECTOR;
    const int32_t eight_bytes = (p->steps + (p->rest > 0)) * step_bytes;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c;
        int8_t *out = y->base + batch * p->out_c;
        int8_t last[PENSTOCK_VECTOR] = {0};
        penstock_copy(last, in + p->steps * PENSTOCK_VECTOR, p->rest);
        for (int32_t o = 0; o < p->out_c; o += 8) {
            const int32_t count = p->out_c - o < 8 ? p->out_c - o : 8;
            int32_t sums[8];
            fully_connected_forms_s8_mve_sums(p, in, last, p->weights + o / 8 * eight_bytes, sums);
            penstock_certified_outputs(sums, p->bias + o, p->forms + 6 * o, count, p->least,
                                       p->most, out + o);
        }
    }
}

#endif
