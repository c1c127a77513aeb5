/* lstm_f32: steps of an LSTM layer on floats, one row each, for each sequence.
 *   x        (1, T, B, 4 * U)             float   weighted inputs: input, output, forget, candidate
 *   cell     (B, U)                       float
 *   hidden   (B, U)                       float
 *   r        (1, U, U, 4)                 float   four rows of weights of the hidden state together
 *   peephole (3 * U)                      float   weights of the cell: input, output, forget; or NULL
 *   y        (1, T, B, 2 * U)             float   row t: cell state, then hidden state after step t
 *   scratch  (4 * U)                      float
 * Computes rows [lower, upper) of y, row 0 from the states, others from the row before.
 * Source: ONNX operator specification, LSTM. */
#ifndef PENSTOCK_LSTM_F32_H
#define PENSTOCK_LSTM_F32_H

#include "recurrent_f32.h"

struct lstm_f32 {
    int32_t batch, units;
    const float *recurrent;
    const float *bounds; /* least and largest cell state */
    const float *peepholes;
};

/* The argument of the activation of gate `g` of a unit; the cell state counts by its peephole. */
static inline float lstm_f32_gate(const struct lstm_f32 *p, const int8_t *in, const int8_t *sums,
                                  int32_t g, int32_t u, float cell) {
    const int32_t k = g * p->units + u;
    const float sum = penstock_get_f32(in, k) + penstock_get_f32(sums, k);
    return p->peepholes && g < 3 ? sum + penstock_product(p->peepholes[k], cell) : sum;
}

PENSTOCK_KERNEL void lstm_f32(const struct lstm_f32 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper,
                              int8_t *scratch) {
    const int32_t units = p->units;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++, out += units * 8) {
            const int8_t *in = penstock_read_row(x, row) + b * units * 16;
            const int8_t *cell = before ? before + 8 * b * units : penstock_read_row(x + 1, b);
            const int8_t *hidden = before ? cell + 4 * units : penstock_read_row(x + 2, b);
            penstock_put_products_f32(hidden, p->recurrent, units, units * 4, scratch);
            for (int32_t u = 0; u < units; u++) {
                const float old = penstock_get_f32(cell, u);
                const float into = penstock_logistic(lstm_f32_gate(p, in, scratch, 0, u, old));
                const float kept = penstock_logistic(lstm_f32_gate(p, in, scratch, 2, u, old));
                const float candidate = penstock_tanh(lstm_f32_gate(p, in, scratch, 3, u, old));
                const float added = penstock_product(into, candidate);
                const float after =
                    penstock_bounded_f32(penstock_product(kept, old) + added, p->bounds);
                const float shown = penstock_logistic(lstm_f32_gate(p, in, scratch, 1, u, after));
                penstock_put_f32(out, u, after);
                penstock_put_f32(out, units + u, shown * penstock_tanh(after));
            }
        }
    }
}

#endif
