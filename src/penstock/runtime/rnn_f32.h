/* rnn_f32: steps of a simple recurrent layer on floats, one row each, for each sequence.
 *   x        (1, T, B, U)  float   weighted inputs
 *   hidden   (B, U)        float
 *   r        (1, ., U, 4)  float   four rows of weights of the hidden state together
 *   y        (1, T, B, U)  float   row t: the state after step t
 *   scratch  (U + 4)       float
 * Computes rows [lower, upper) of y, row 0 from the state, others from the row before.
 * Source: ONNX operator specification, RNN. */
#ifndef PENSTOCK_RNN_F32_H
#define PENSTOCK_RNN_F32_H

#include "recurrent_f32.h"

struct rnn_f32 {
    int32_t batch, units;
    int32_t rectified; /* the activation is Relu, else Tanh */
    const float *recurrent;
};

PENSTOCK_KERNEL void rnn_f32(const struct rnn_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper,
                             int8_t *scratch) {
    const int32_t units = p->units;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++, out += units * 4) {
            const int8_t *in = penstock_read_row(x, row) + b * units * 4;
            const int8_t *hidden = before ? before + 4 * b * units : penstock_read_row(x + 1, b);
            penstock_put_products_f32(hidden, p->recurrent, 4, units, units, scratch);
            for (int32_t u = 0; u < units; u++) {
                const float sum = penstock_get_f32(in, u) + penstock_get_f32(scratch, u);
                const float raised = sum < 0.0f ? 0.0f : sum;
                penstock_put_f32(out, u, p->rectified ? raised : penstock_tanh(sum));
            }
        }
    }
}

#endif
