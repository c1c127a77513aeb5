/* div_s8: a / b, element by element, with requantisation; inputs may be broadcast.
 *   a, b, y  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/div.h. */
#ifndef PENSTOCK_DIV_S8_H
#define PENSTOCK_DIV_S8_H

#include "broadcast.h"
#include "fixedpoint.h"
#include "reciprocal.h"

struct div_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, multiplier, shift, out_zero, least, most;
};

/* How far x, or ~x if it is negative, can be shifted to the left without overflow. */
static inline int32_t penstock_sign_bits(int32_t x) {
    int32_t bits = 31;
    for (uint32_t rest = (uint32_t)(x < 0 ? ~x : x); rest; rest >>= 1) {
        bits--;
    }
    return bits;
}

enum { PENSTOCK_INVERSE_OF_ZERO = -1515870788 }; /* what the reference's iteration yields */

/* a / b * multiplier * 2^(shift - 31), rounded; shift is at most 22. */
static inline int32_t penstock_quotient(int32_t a, int32_t b, int32_t multiplier, int32_t shift) {
    const int32_t dividend = b < 0 ? -a : a;
    const uint32_t divisor = (uint32_t)(b < 0 ? -b : b);
    const int32_t zeros = penstock_sign_bits((int32_t)divisor) + 1;
    const int32_t inverse =
        divisor ? penstock_reciprocal((int32_t)((divisor << zeros) - (UINT32_C(1) << 31)))
                : PENSTOCK_INVERSE_OF_ZERO;
    const int32_t headroom = penstock_sign_bits(dividend);
    const int32_t unscaled =
        penstock_high_multiply(penstock_left_shift(dividend, headroom), inverse);
    const int32_t right = headroom + 31 - zeros - shift;
    return right > 31 ? 0
                      : penstock_rounding_shift(penstock_high_multiply(unscaled, multiplier), right);
}

PENSTOCK_KERNEL void div_s8(const struct div_s8 *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int32_t left = a[w * p->step0_w + c * p->step0_c] - p->zero0;
                const int32_t right = b[w * p->step1_w + c * p->step1_c] - p->zero1;
                const int32_t quotient =
                    penstock_quotient(left, right, p->multiplier, p->shift) + p->out_zero;
                *out++ = (int8_t)penstock_clamp(quotient, p->least, p->most);
            }
        }
    }
}

#endif
