/* recurrence.h: products of recurrent layers on real numbers.  Sums are exact; all other
 * arithmetic is single precision, rounded after each operation. */
#ifndef PENSTOCK_RECURRENCE_H
#define PENSTOCK_RECURRENCE_H

#include "real.h"
#include "running.h"
#include "sigmoid_f32.h"

/* A hidden state as a fixed-point number with 27 bits after the binary point, truncated.  States
 * beyond 16 count as 16, and NaN counts as -16. */
static inline int32_t penstock_fixed_point(float hidden) {
    const float most = 15.99999904632568359375f; /* 16 - 2^-20, the largest float below 16 */
    const float raised = hidden > -most ? hidden : -most;
    return (int32_t)((raised < most ? raised : most) * 134217728.0f);
}

/* The sum of the inputs of a step, less their zero point. */
static inline int32_t penstock_input_total(const int8_t *in, int32_t in_zero, int32_t count) {
    int32_t total = 0;
    for (int32_t k = 0; k < count; k++) {
        total += in[k] - in_zero;
    }
    return total;
}

/* The sum of a row of weights times the inputs of a step, less their zero point. */
static inline int32_t penstock_input_sum(const int8_t *in, int32_t in_zero, const int8_t *weights,
                                         int32_t count) {
    int32_t sum = 0;
    for (int32_t k = 0; k < count; k++) {
        sum += (in[k] - in_zero) * weights[k];
    }
    return sum;
}

/* The sum of a row of weights times a hidden state, whose fixed-point numbers are int32. */
static inline int64_t penstock_hidden_sum(const int8_t *fixed, const int8_t *weights,
                                          int32_t count) {
    int64_t sum = 0;
    for (int32_t k = 0; k < count; k++) {
        sum += (int64_t)penstock_get_s32(fixed, k) * weights[k];
    }
    return sum;
}

/* Writes a fixed-point number; returns `total` plus the number. */
static inline int64_t penstock_put_fixed(int8_t *fixed, int32_t index, float hidden,
                                         int64_t total) {
    const int32_t number = penstock_fixed_point(hidden);
    penstock_put_s32(fixed, index, number);
    return total + number;
}

#endif
