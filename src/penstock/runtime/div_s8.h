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

static inline int32_t div_s8_element(const struct div_s8 *p, int32_t a, int32_t b) {
    const int32_t quotient =
        penstock_quotient(a - p->zero0, b - p->zero1, p->multiplier, p->shift) + p->out_zero;
    return penstock_clamp(quotient, p->least, p->most);
}

PENSTOCK_KERNEL void div_s8(const struct div_s8 *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int32_t, penstock_get_s8, div_s8_element(p, a, b))
}

#endif
