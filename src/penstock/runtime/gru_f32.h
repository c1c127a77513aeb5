/* gru_f32: steps of a GRU layer on floats, one row each, for each sequence.
 *   x        (1, T, B, 3 * U)    float   weighted inputs of the gates: update, reset, candidate
 *   hidden   (B, U)              float
 *   r        (1, ., U, 4)        float   weights of update and reset, four rows together
 *   s        (1, ., U, 4)        float   those of the candidate
 *   after    (U)                 float   added to the products of the candidate before the reset
 *                                        gate multiplies them; NULL if it multiplies the state
 *   y        (1, T, B, U)        float   row t: the state after step t
 *   scratch  (4 * U + 8)         float
 * Computes rows [lower, upper) of y, row 0 from the state, others from the row before.
 * Source: ONNX operator specification, GRU. */
#ifndef PENSTOCK_GRU_F32_H
#define PENSTOCK_GRU_F32_H

#include "recurrent_f32.h"

struct gru_f32 {
    int32_t batch, units;
    const float *recurrent;
    const float *candidate;
    const float *after;
};

/* The state after a step, for one sequence. */
static inline void gru_f32_step(const struct gru_f32 *p, const int8_t *in, const int8_t *hidden,
                                int8_t *out, int8_t *scratch) {
    const int32_t units = p->units;
    int8_t *sums = scratch;                          /* update and reset */
    int8_t *reset = scratch + (2 * units + 4) * 4;   /* the state times reset; U */
    int8_t *last = reset + units * 4;                /* products of the candidate; U, and room */
    penstock_put_products_f32(hidden, p->recurrent, 4, units, 2 * units, sums);
    for (int32_t u = 0; u < units; u++) {
        const float gate = penstock_logistic(penstock_get_f32(in, units + u) +
                                             penstock_get_f32(sums, units + u));
        penstock_put_f32(reset, u, p->after ? gate : gate * penstock_get_f32(hidden, u));
    }
    penstock_put_products_f32(p->after ? hidden : reset, p->candidate, 4, units, units, last);
    for (int32_t u = 0; u < units; u++) {
        const float update =
            penstock_logistic(penstock_get_f32(in, u) + penstock_get_f32(sums, u));
        const float product = penstock_get_f32(last, u);
        const float recurrent =
            p->after ? penstock_product(penstock_get_f32(reset, u), product + p->after[u]) : product;
        const float state = penstock_tanh(penstock_get_f32(in, 2 * units + u) + recurrent);
        const float kept = penstock_product(update, penstock_get_f32(hidden, u));
        penstock_put_f32(out, u, penstock_product(1.0f - update, state) + kept);
    }
}

PENSTOCK_KERNEL void gru_f32(const struct gru_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper,
                             int8_t *scratch) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            const int8_t *hidden =
                before ? before + 4 * b * p->units : penstock_read_row(x + 1, b);
            gru_f32_step(p, penstock_read_row(x, row) + b * p->units * 12, hidden,
                         out + b * p->units * 4, scratch);
        }
    }
}

#endif
