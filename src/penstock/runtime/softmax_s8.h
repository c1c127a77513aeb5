/* softmax_s8: exp(x - max) over its sum, along the last axis.
 *   x, y  (rows, depth)  int8     y has scale 1/256, zero point -128
 * exp[d] is exp of a difference d to the maximum, in Q0.31.
 * Source: TensorFlow Lite, reference/softmax.h; gemmlowp, one_over_one_plus_x_for_x_in_0_1. */
#ifndef PENSTOCK_SOFTMAX_S8_H
#define PENSTOCK_SOFTMAX_S8_H

#include "fixedpoint.h"
#include "view.h"

struct softmax_s8 {
    int32_t rows, depth;
    const int32_t *exp; /* 256 entries */
};

/* 1 / (1 + a) for a in [0, 1), both in Q0.31: Newton's method in Q2.29. */
static inline int32_t softmax_s8_reciprocal(int32_t a) {
    const int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + penstock_high_multiply(half_denominator, -1010580540);
    for (int k = 0; k < 3; k++) {
        const int32_t remainder = (INT32_C(1) << 29) - penstock_high_multiply(half_denominator, x);
        x += penstock_high_multiply(x, remainder) * 4;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

static void softmax_s8(const struct softmax_s8 *p, const penstock_source *x, const penstock_sink *y,
                       int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t row = 0; row < p->rows; row++) {
        const int8_t *in = x->base + row * p->depth;
        int8_t *out = y->base + row * p->depth;
        int32_t largest = INT8_MIN;
        for (int32_t c = 0; c < p->depth; c++) {
            largest = in[c] > largest ? in[c] : largest;
        }
        uint32_t sum = 0; /* Q12.19, at least 1 */
        for (int32_t c = 0; c < p->depth; c++) {
            sum += (uint32_t)penstock_rounding_shift(p->exp[largest - in[c]], 12);
        }
        int32_t headroom = 0; /* zeros above the leading one */
        for (uint32_t top = sum; top < UINT32_C(0x80000000); top <<= 1) {
            headroom++;
        }
        const uint32_t fraction = (sum << headroom) & UINT32_C(0x7fffffff);
        const int32_t scale = softmax_s8_reciprocal((int32_t)fraction);
        for (int32_t c = 0; c < p->depth; c++) {
            const int32_t part = penstock_high_multiply(scale, p->exp[largest - in[c]]);
            const int32_t value = penstock_rounding_shift(part, 12 - headroom + 31 - 8) - 128;
            out[c] = (int8_t)penstock_clamp(value, INT8_MIN, INT8_MAX);
        }
    }
}

#endif
