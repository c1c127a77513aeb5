/* gru_s8_f32: steps of a GRU layer on real numbers, one row each, for each sequence.
 *   x        (1, T, B, I)  int8    w  (3 * U, I)  int8   gates: update, reset, candidate
 *   hidden   (B, U)        float   r  (3 * U, U)  int8
 *   y        (1, T, B, U)  float   b  (3 * U)     float  (4 * U) if the reset gate is applied after
 *                                                        the product; the last are of that product
 *   scratch  (2, U)        int32   the hidden state before a step, in fixed point; then, unless the
 *                                  reset gate is applied after the product, that times the gate
 * Computes rows [lower, upper) of y, row 0 from the state, others from the row before.
 * Source: ONNX operator specification, GRU. */
#ifndef PENSTOCK_GRU_S8_F32_H
#define PENSTOCK_GRU_S8_F32_H

#include "recurrence.h"

struct gru_s8_f32 {
    int32_t batch, in_c, units, in_zero;
    int32_t in_step, hidden_step; /* 1 if each row of weights has a scale, else 0 */
    int32_t reset_after;
    const float *in_scales;
    const float *hidden_scales;
    const int8_t *weights;
    const int8_t *recurrent;
    const float *bias;
};

static inline float penstock_gru_input(const struct gru_s8_f32 *p, int32_t row, const int8_t *in) {
    return penstock_input_product(in, p->in_zero, p->weights + row * p->in_c, p->in_c,
                                  p->in_scales[row * p->in_step]);
}

static inline float penstock_gru_hidden(const struct gru_s8_f32 *p, int32_t row,
                                        const int8_t *fixed) {
    return penstock_hidden_product(fixed, p->recurrent + row * p->units, p->units,
                                   p->hidden_scales[row * p->hidden_step]);
}

/* Update or reset gate. */
static inline float penstock_gru_gate(const struct gru_s8_f32 *p, int32_t row, const int8_t *in,
                                      const int8_t *fixed) {
    return penstock_logistic(penstock_gru_input(p, row, in) + penstock_gru_hidden(p, row, fixed) +
                             p->bias[row]);
}

/* The candidate of a unit; `fixed` is the hidden state, or that times the reset gate. */
static inline float penstock_gru_candidate(const struct gru_s8_f32 *p, int32_t u, const int8_t *in,
                                           const int8_t *fixed, const int8_t *hidden) {
    const int32_t row = 2 * p->units + u;
    const float a = penstock_gru_input(p, row, in);
    const float b = penstock_gru_hidden(p, row, hidden);
    if (!p->reset_after) {
        return penstock_tanh(a + b + p->bias[row]);
    }
    const float reset = penstock_gru_gate(p, p->units + u, in, fixed);
    return penstock_tanh(a + p->bias[row] +
                         penstock_product(reset, b + p->bias[row + p->units]));
}

PENSTOCK_KERNEL void gru_s8_f32(const struct gru_s8_f32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper,
                                int8_t *scratch) {
    const int32_t units = p->units;
    int8_t *const other = p->reset_after ? scratch : scratch + 4 * units;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            const int8_t *in = penstock_read_row(x, row) + b * p->in_c;
            const int8_t *hidden = before ? before + 4 * b * units : penstock_read_row(x + 1, b);
            for (int32_t u = 0; u < units; u++) {
                penstock_put_s32(scratch, u, penstock_fixed_point(penstock_get_f32(hidden, u)));
            }
            for (int32_t u = 0; u < units && !p->reset_after; u++) {
                const float reset = penstock_gru_gate(p, units + u, in, scratch);
                penstock_put_s32(other, u,
                                 penstock_fixed_point(reset * penstock_get_f32(hidden, u)));
            }
            for (int32_t u = 0; u < units; u++) {
                const float update = penstock_gru_gate(p, u, in, scratch);
                const float candidate = penstock_gru_candidate(p, u, in, scratch, other);
                const float kept = penstock_product(update, penstock_get_f32(hidden, u));
                penstock_put_f32(out, b * units + u,
                                 penstock_product(1.0f - update, candidate) + kept);
            }
        }
    }
}

#endif
