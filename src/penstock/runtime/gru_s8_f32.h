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
    int32_t weight_zero, recurrent_zero;
    int32_t in_step, hidden_step; /* 1 if each row of weights has a scale, else 0 */
    int32_t reset_after;
    const float *in_scales;
    const float *hidden_scales;
    const int8_t *weights;
    const int8_t *recurrent;
    const float *bias;
};

/* The vectors that are multiplied by weights, and their sums: inputs; fixed-point hidden state. */
struct penstock_gru_vectors {
    const int8_t *in, *fixed;
    int32_t in_total;
    int64_t total;
};

static inline float penstock_gru_input(const struct gru_s8_f32 *p, int32_t row,
                                       const struct penstock_gru_vectors *v) {
    const int32_t sum = penstock_input_sum(v->in, p->in_zero, p->weights + row * p->in_c, p->in_c);
    return penstock_product((float)(sum - p->weight_zero * v->in_total),
                            p->in_scales[row * p->in_step]);
}

static inline float penstock_gru_hidden(const struct gru_s8_f32 *p, int32_t row,
                                        const struct penstock_gru_vectors *v) {
    const int64_t sum = penstock_hidden_sum(v->fixed, p->recurrent + row * p->units, p->units);
    return penstock_product((float)(sum - p->recurrent_zero * v->total),
                            p->hidden_scales[row * p->hidden_step]);
}

/* Update or reset gate. */
static inline float penstock_gru_gate(const struct gru_s8_f32 *p, int32_t row,
                                      const struct penstock_gru_vectors *v) {
    return penstock_logistic(penstock_gru_input(p, row, v) + penstock_gru_hidden(p, row, v) +
                             p->bias[row]);
}

/* The candidate of a unit; unless the reset gate is applied after the product, the hidden state in
 * `reset` has been multiplied by it. */
static inline float penstock_gru_candidate(const struct gru_s8_f32 *p, int32_t u,
                                           const struct penstock_gru_vectors *v,
                                           const struct penstock_gru_vectors *reset) {
    const int32_t row = 2 * p->units + u;
    const float a = penstock_gru_input(p, row, v);
    const float b = penstock_gru_hidden(p, row, reset);
    if (!p->reset_after) {
        return penstock_tanh(a + b + p->bias[row]);
    }
    const float gate = penstock_gru_gate(p, p->units + u, v);
    return penstock_tanh(a + p->bias[row] + penstock_product(gate, b + p->bias[row + p->units]));
}

PENSTOCK_KERNEL void gru_s8_f32(const struct gru_s8_f32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper,
                                int8_t *scratch) {
    const int32_t units = p->units;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            const int8_t *in = penstock_read_row(x, row) + b * p->in_c;
            const int8_t *hidden = before ? before + 4 * b * units : penstock_read_row(x + 1, b);
            struct penstock_gru_vectors v = {
                in, scratch, penstock_input_total(in, p->in_zero, p->in_c), 0};
            for (int32_t u = 0; u < units; u++) {
                v.total = penstock_put_fixed(scratch, u, penstock_get_f32(hidden, u), v.total);
            }
            struct penstock_gru_vectors reset = v;
            if (!p->reset_after) {
                int8_t *const product = scratch + 4 * units;
                reset.fixed = product;
                reset.total = 0;
                for (int32_t u = 0; u < units; u++) {
                    const float gate = penstock_gru_gate(p, units + u, &v);
                    reset.total = penstock_put_fixed(product, u, gate * penstock_get_f32(hidden, u),
                                                     reset.total);
                }
            }
            for (int32_t u = 0; u < units; u++) {
                const float update = penstock_gru_gate(p, u, &v);
                const float candidate = penstock_gru_candidate(p, u, &v, &reset);
                const float kept = penstock_product(update, penstock_get_f32(hidden, u));
                penstock_put_f32(out, b * units + u,
                                 penstock_product(1.0f - update, candidate) + kept);
            }
        }
    }
}

#endif
