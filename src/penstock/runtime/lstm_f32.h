/* lstm_f32: steps of an LSTM layer on floats, one row each, for each sequence.
 *   x        (1, T, B, 4 * U)             float   weighted inputs: input, output, forget, candidate
 *   cell     (B, U)                       float
 *   hidden   (B, U)                       float
 *   r        (1, U, U, 4)                 float   or int8; four rows of weights of the hidden state together
 *   peephole (3 * U)                      float   weights of the cell: input, output, forget; or NULL
 *   y        (1, T, B, 2 * U)             float   row t: cell state, then hidden state after step t
 *   scratch  (4 * U), and (U) if steps    float
 * Computes rows [lower, upper) of y, row 0 from the states, others from the row before.  With
 * `scales` of the weights of each gate, hidden states are read in int8 steps.
 * Source: ONNX operator specification, LSTM; TensorFlow Lite, lstm_eval.cc (LstmStepHybrid). */
#ifndef PENSTOCK_LSTM_F32_H
#define PENSTOCK_LSTM_F32_H

#include "dynamic.h"
#include "recurrent_f32.h"

struct lstm_f32 {
    int32_t batch, units, weight_bytes, symmetric;
    const void *weights; /* of the hidden state */
    const float *scales; /* of each gate; or NULL */
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

/* Puts the products of the hidden state of a sequence and the weights of all gates. */
static inline void lstm_f32_sums(const struct lstm_f32 *p, const int8_t *hidden, int8_t *sums) {
    const int32_t units = p->units;
    if (!p->scales) {
        penstock_put_products_f32(hidden, p->weights, p->weight_bytes, units, units * 4, sums);
        return;
    }
    int8_t *steps = sums + units * 16;
    const float scale = penstock_put_steps(hidden, units, p->symmetric, steps);
    penstock_put_products_f32(steps, p->weights, p->weight_bytes, units, units * 4, sums);
    for (int32_t k = 0; k < units * 4; k++) {
        const float factor = penstock_product(scale, p->scales[k / units]);
        penstock_put_f32(sums, k, penstock_product(penstock_get_f32(sums, k), factor));
    }
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
            lstm_f32_sums(p, hidden, scratch);
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
