/* logarithm.h: log of floats by integer arithmetic, so that it is the same on every processor and
 * needs no mathematical library.  The error is below 0.6 units in the last place. */
#ifndef PENSTOCK_LOGARITHM_H
#define PENSTOCK_LOGARITHM_H

#include "float_bits.h"

/* log of x > 0, finite: x = 2^k * m with m near 1, s = (m - 1) / (m + 1),
 * log(m) = 2 * (s + s^3/3 + s^5/5 + ..). */
static inline float penstock_log_of_positive(float x) {
    int32_t k = -127;
    if (x < penstock_power_of_two(-126)) { /* subnormal */
        x *= penstock_power_of_two(24);
        k -= 24;
    }
    const uint32_t bits = penstock_bits_of(x);
    const int32_t m = (int32_t)((bits & 0x7fffffU) | 0x800000U); /* Q23 */
    int32_t one = INT32_C(1) << 23;
    k += (int32_t)(bits >> 23);
    if (m > 11863283) { /* sqrt(2) */
        one *= 2;
        k++;
    }
    /* s * 2^scaling in Q36, so that it has at least 33 significant bits. */
    int64_t difference = m - one;
    int32_t scaling = 0;
    for (; scaling < 23 && difference < (1 << 22) && difference > -(1 << 22); scaling++) {
        difference *= 2;
    }
    const int64_t s = difference * (INT64_C(1) << 36) / (m + one);
    const int64_t narrow = s >> (5 + scaling); /* Q31 */
    const int64_t square = (narrow * narrow) >> 31;
    int64_t sum = 0; /* s^2/3 + s^4/5 + .. in Q31 */
    for (int32_t n = 13; n >= 3; n -= 2) {
        sum = (square * (sum + (INT64_C(1) << 31) / n)) >> 31;
    }
    const int64_t log_m = 2 * (s + ((s * sum) >> 31));
    if (k == 0) {
        return penstock_scaled((float)log_m, -36 - scaling);
    }
    const int64_t log_2 = INT64_C(47632711549); /* log(2) in Q36 */
    return penstock_scaled((float)(k * log_2 + (log_m >> scaling)), -36);
}

/* log(x) for any x: -infinity for 0, NaN for negative numbers. */
static inline float penstock_log(float x) {
    if (x == 0.0f) {
        return penstock_float_of(PENSTOCK_INFINITY_BITS | PENSTOCK_SIGN_BIT);
    }
    if (x < 0.0f) {
        return penstock_float_of(PENSTOCK_NAN_BITS);
    }
    if (x != x || penstock_bits_of(x) == PENSTOCK_INFINITY_BITS) {
        return x;
    }
    return penstock_log_of_positive(x);
}

#endif
