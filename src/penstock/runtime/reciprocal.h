/* reciprocal.h: 1 / (1 + a) in fixed point, which softmax and its logarithm share.
 * Source: gemmlowp, fixedpoint.h (one_over_one_plus_x_for_x_in_0_1). */
#ifndef PENSTOCK_RECIPROCAL_H
#define PENSTOCK_RECIPROCAL_H

#include "fixedpoint.h"

/* 1 / (1 + a) for a in [0, 1), both in Q0.31: Newton's method in Q2.29. */
static inline int32_t penstock_reciprocal(int32_t a) {
    const int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + penstock_high_multiply(half_denominator, -1010580540);
    for (int k = 0; k < 3; k++) {
        const int32_t remainder = (INT32_C(1) << 29) - penstock_high_multiply(half_denominator, x);
        x += penstock_high_multiply(x, remainder) * 4;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

#endif
