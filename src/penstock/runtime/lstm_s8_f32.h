/* lstm_s8_f32: steps of an LSTM layer on real numbers, one row each, for each sequence.
 *   x        (1, T, B, I)      int8    w  (4 * U, I)  int8   gates: input, output, forget, candidate
 *   cell     (B, U)            float   r  (4 * U, U)  int8
 *   hidden   (B, U)            float   b  (4 * U)     float
 *   y        (1, T, B, 2 * U)  float   row t: cell state, then hidden state after step t
 *   scratch  (U)               int32   the hidden state before a step, in fixed point
 * Computes rows [lower, upper) of y, row 0 from the states, others from the row before.
 * Source: ONNX operator specification, LSTM. */
#ifndef PENSTOCK_LSTM_S8_F32_H
#define PENSTOCK_LSTM_S8_F32_H

#include "recurrence.h"

struct lstm_s8_f32 {
    int32_t batch, in_c, units, in_zero;
    int32_t weight_zero, recurrent_zero;
    int32_t in_step, hidden_step; /* 1 if each row of weights has a scale, else 0 */
    const float *in_scales;
    const float *hidden_scales;
    const int8_t *weights;
    const int8_t *recurrent;
    const float *bias;
};

/* The argument of a gate's activation; the totals are the sums of both vectors. */
static inline float penstock_real_lstm_gate(const struct lstm_s8_f32 *p, int32_t row,
                                            const int8_t *in, int32_t in_total,
                                            const int8_t *fixed, int64_t total) {
    const int32_t a = penstock_input_sum(in, p->in_zero, p->weights + row * p->in_c, p->in_c);
    const int64_t b = penstock_hidden_sum(fixed, p->recurrent + row * p->units, p->units);
    return penstock_product((float)(a - p->weight_zero * in_total),
                            p->in_scales[row * p->in_step]) +
           penstock_product((float)(b - p->recurrent_zero * total),
                            p->hidden_scales[row * p->hidden_step]) +
           p->bias[row];
}

PENSTOCK_KERNEL void lstm_s8_f32(const struct lstm_s8_f32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper,
                                 int8_t *scratch) {
    const int32_t units = p->units;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            const int8_t *in = penstock_read_row(x, row) + b * p->in_c;
            const int8_t *cell = before ? before + 8 * b * units : penstock_read_row(x + 1, b);
            const int8_t *hidden = before ? cell + 4 * units : penstock_read_row(x + 2, b);
            const int32_t in_total = penstock_input_total(in, p->in_zero, p->in_c);
            int64_t total = 0;
            for (int32_t u = 0; u < units; u++) {
                total = penstock_put_fixed(scratch, u, penstock_get_f32(hidden, u), total);
            }
            for (int32_t u = 0; u < units; u++) {
                float gates[4];
                for (int32_t g = 0; g < 4; g++) {
                    const float sum = penstock_real_lstm_gate(p, g * units + u, in, in_total,
                                                              scratch, total);
                    gates[g] = g == 3 ? penstock_tanh(sum) : penstock_logistic(sum);
                }
                const float kept = penstock_product(gates[2], penstock_get_f32(cell, u));
                const float after = kept + penstock_product(gates[0], gates[3]);
                penstock_put_f32(out, 2 * b * units + u, after);
                penstock_put_f32(out, (2 * b + 1) * units + u, gates[1] * penstock_tanh(after));
            }
        }
    }
}

#endif
