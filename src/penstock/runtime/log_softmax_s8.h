/* log_softmax_s8: x - log(sum(exp(x))) along the last axis.
 *   x, y  rows of `width` vectors of `depth` elements  int8     y has scale 1/16, zero point 127
 * For a difference d to the maximum, exp[d] is its exponential in Q12.19, scaled[d] is -d in Q5.26,
 * at least -16.  Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/log_softmax.h; kernels/internal/common.h
 * (log_x_for_x_greater_than_or_equal_to_1). */
#ifndef PENSTOCK_LOG_SOFTMAX_S8_H
#define PENSTOCK_LOG_SOFTMAX_S8_H

#include "reciprocal.h"
#include "vector_s8.h"
#include "view.h"

struct log_softmax_s8 {
    int32_t width, depth;
    const int32_t *exp;    /* 256 entries */
    const int32_t *scaled; /* 256 entries */
};

/* Number of leading zeros after the sign bit of x > 0. */
static inline int32_t log_softmax_s8_headroom(int32_t x) {
    int32_t headroom = 0;
    for (; x < INT32_C(1) << 30; x *= 2) {
        headroom++;
    }
    return headroom;
}

/* x * 2^exponent for x >= 0, saturated. */
static inline int32_t log_softmax_s8_shift(int32_t x, int32_t exponent) {
    return x > INT32_MAX >> exponent ? INT32_MAX : x * (1 << exponent);
}

/* log of x >= 1 in Q12.19, as Q5.26: x is 2^k * r with r near 2^(-1/4), and log r a quotient of
 * polynomials. */
static inline int32_t log_softmax_s8_log(int32_t x) {
    const int32_t sqrt_half = 1518500250;
    const int32_t center = 1805811301; /* 2^(-1/4) in Q0.31 */
    const int32_t quarter = INT32_C(1) << 23;

    const int32_t headroom = log_softmax_s8_headroom(x);
    const int32_t near =
        log_softmax_s8_shift(penstock_high_multiply(x * (1 << headroom), sqrt_half), 1);
    const int32_t power = (11 - headroom) * (1 << 25) + quarter;
    const int32_t other_headroom = log_softmax_s8_headroom(penstock_high_multiply(x, sqrt_half));
    const int32_t other = log_softmax_s8_shift(x, other_headroom);
    const int32_t other_power = (12 - other_headroom) * (1 << 25) - quarter;
    const int32_t r = near < other ? near : other;

    const int32_t p = (int32_t)(((int64_t)r + center + 1) / 2);
    const int32_t q = 2 * (r - center);
    const int32_t square = penstock_high_multiply(q, q);
    const int32_t cubic = penstock_high_multiply(penstock_high_multiply(q, square), 117049297);
    const int32_t numerator = penstock_high_multiply(q, r) + cubic;
    const int32_t inner = 1057819769 + q + penstock_high_multiply(square, 127690142);
    const int32_t denominator =
        penstock_high_multiply(p, inner) + penstock_high_multiply(q, 638450708);
    const int32_t fraction = penstock_high_multiply(penstock_rounding_shift(numerator, 6),
                                                    penstock_reciprocal(denominator));
    const int32_t whole =
        penstock_high_multiply(power > other_power ? power : other_power, 1488522236); /* log(2) */
    return 2 * (whole + fraction);
}

PENSTOCK_KERNEL void log_softmax_s8(const struct log_softmax_s8 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++, in += p->depth, out += p->depth) {
            const int32_t largest = penstock_largest_s8(in, p->depth, INT8_MIN);
            int32_t sum = 0;
            for (int32_t c = 0; c < p->depth; c++) {
                sum += p->exp[largest - in[c]];
            }
            const int32_t log_of_sum = log_softmax_s8_log(sum);
            for (int32_t c = 0; c < p->depth; c++) {
                const int32_t value =
                    penstock_rounding_shift(p->scaled[largest - in[c]] - log_of_sum, 22) + 127;
                out[c] = (int8_t)penstock_clamp(value, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
