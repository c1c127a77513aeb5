/* lstm_s8: steps of an LSTM layer, one row each, for each sequence of the batch.
 *   x        (1, T, B, I)      int8     w  (4 * U, I)  int8     gates: input, forget, candidate,
 *   hidden   (B, U)            int8     r  (4 * U, U)  int8            output
 *   cell     (B, U)            int16    b  (4 * U)     int32
 *   y        (1, T, B, 2 * U)  int16    row t: cell state, then hidden state after step t
 * Computes rows [lower, upper) of y, row 0 from the states, others from the row before.
 * Source: TensorFlow Lite Micro, micro/kernels/lstm_eval.h and lstm_eval.cc. */
#ifndef PENSTOCK_LSTM_S8_H
#define PENSTOCK_LSTM_S8_H

#include "fixedpoint.h"
#include "running.h"

#define PENSTOCK_GATES 4

struct lstm_s8 {
    int32_t batch, in_c, units, in_zero, hidden_zero;
    int32_t integer_bits; /* of the cell state, before the binary point */
    int32_t clip;         /* largest magnitude of the cell state */
    const int32_t *multipliers; /* products with x and with hidden, by gate; forget gate * cell, */
    const int8_t *shifts;      /* input gate * candidate, output gate * tanh(cell) */
    const int16_t *logistic;   /* logistic(i / 24) - 1/2 in Q0.16 */
    const int8_t *weights;
    const int8_t *recurrent;
    const int32_t *bias;
};

/* x times multiplier `k`, saturated to int16. */
static inline int32_t penstock_lstm_scaled(const struct lstm_s8 *p, int32_t k, int32_t x) {
    return penstock_clamp(penstock_multiply(x, p->multipliers[k], p->shifts[k]), INT16_MIN,
                          INT16_MAX);
}

/* The table at an index with `bits` bits after the binary point, times 2^bits. */
static inline int32_t penstock_lstm_between(const int16_t *table, int32_t index, int32_t bits) {
    const int32_t k = index >> bits;
    return table[k] * (1 << bits) + (index & ((1 << bits) - 1)) * (table[k + 1] - table[k]);
}

/* 1 / (1 + exp(-x)) in Q0.15 of x in Q3.12. */
static inline int32_t penstock_lstm_logistic(const int16_t *table, int32_t x) {
    const int32_t index = 3 * (x < 0 ? -x : x);
    const int32_t y = index >> 9 >= 255
                          ? INT16_MAX << 10
                          : penstock_lstm_between(table, index, 9) + (1 << 24);
    return (x < 0 ? (1 << 25) - y + (1 << 9) - 1 : y + (1 << 9)) >> 10;
}

/* tanh(x) in Q0.15 of x with some bits before the binary point. */
static inline int32_t penstock_lstm_tanh(const int16_t *table, int32_t x, int32_t integer_bits) {
    const int32_t left = integer_bits - 3;
    const int32_t scaled =
        left < 0 ? (3 * x + (1 << (-left - 1))) >> -left : 3 * x * (1 << left);
    const int32_t index = scaled < 0 ? -scaled : scaled;
    const int32_t y =
        index >> 8 >= 255 ? INT16_MAX << 8 : penstock_lstm_between(table, index, 8);
    return (scaled < 0 ? -y + (1 << 7) - 1 : y + (1 << 7)) >> 8;
}

/* The argument of a gate's activation, in Q3.12.  The hidden state is int16 in `before`, or int8 in
 * `hidden` if `before` is NULL. */
static inline int32_t penstock_lstm_gate(const struct lstm_s8 *p, int32_t gate, int32_t unit,
                                         const int8_t *in, const int8_t *hidden,
                                         const int8_t *before) {
    const int32_t row = gate * p->units + unit;
    const int8_t *w = p->weights + row * p->in_c;
    const int8_t *r = p->recurrent + row * p->units;
    int32_t sum = p->bias[row];
    int32_t recurrent = 0;
    for (int32_t k = 0; k < p->in_c; k++) {
        sum += (in[k] - p->in_zero) * w[k];
    }
    if (before) {
        for (int32_t k = 0; k < p->units; k++) {
            recurrent += (penstock_get_s16(before, p->units + k) - p->hidden_zero) * r[k];
        }
    } else {
        for (int32_t k = 0; k < p->units; k++) {
            recurrent += (hidden[k] - p->hidden_zero) * r[k];
        }
    }
    return penstock_clamp(penstock_lstm_scaled(p, gate, sum) +
                              penstock_lstm_scaled(p, PENSTOCK_GATES + gate, recurrent),
                          INT16_MIN, INT16_MAX);
}

/* One step of one sequence. */
static inline void penstock_lstm_step(const struct lstm_s8 *p, const int8_t *in,
                                      const int8_t *hidden, const int8_t *cell,
                                      const int8_t *before, int8_t *out) {
    const int16_t *table = p->logistic;
    for (int32_t u = 0; u < p->units; u++) {
        int32_t gates[PENSTOCK_GATES];
        for (int32_t g = 0; g < PENSTOCK_GATES; g++) {
            const int32_t x = penstock_lstm_gate(p, g, u, in, hidden, before);
            gates[g] = g == 2 ? penstock_lstm_tanh(table, x, 3) : penstock_lstm_logistic(table, x);
        }
        const int32_t old = penstock_get_s16(before ? before : cell, u);
        const int32_t sum = penstock_lstm_scaled(p, 2 * PENSTOCK_GATES, gates[1] * old) +
                            penstock_lstm_scaled(p, 2 * PENSTOCK_GATES + 1, gates[0] * gates[2]);
        const int32_t next =
            penstock_clamp(penstock_clamp(sum, INT16_MIN, INT16_MAX), -p->clip, p->clip);
        const int32_t product = penstock_lstm_tanh(table, next, p->integer_bits) * gates[3];
        const int32_t k = 2 * PENSTOCK_GATES + 2;
        const int32_t shown = penstock_multiply(product, p->multipliers[k], p->shifts[k]);
        penstock_put_s16(out, u, next);
        penstock_put_s16(out, p->units + u,
                         penstock_clamp(shown + p->hidden_zero, INT8_MIN, INT8_MAX));
    }
}

PENSTOCK_KERNEL void lstm_s8(const struct lstm_s8 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            const int32_t from = b * p->units * 4; /* bytes: two int16 for each unit */
            penstock_lstm_step(p, in + b * p->in_c, before ? NULL : penstock_read_row(x + 1, b),
                               before ? NULL : penstock_read_row(x + 2, b),
                               before ? before + from : NULL, out + from);
        }
    }
}

#endif
