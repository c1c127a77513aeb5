/* exponential.h: exp of floats by integer arithmetic, so that it is the same on every processor and
 * needs no mathematical library.  The error is below 0.6 units in the last place (ulp) where the
 * result is not subnormal. */
#ifndef PENSTOCK_EXPONENTIAL_H
#define PENSTOCK_EXPONENTIAL_H

#include "float_bits.h"

/* x = exponent * log(2) + rest / 2^31, and the rest is within about [-0.35, 0.35]. */
struct penstock_reduced {
    int32_t exponent, rest;
};

static inline struct penstock_reduced penstock_reduce(float x) {
    const int64_t fixed = (int64_t)(x * 281474976710656.0f); /* Q48 */
    const int64_t log2_e = 1549082005;                       /* 1 / log(2) in Q30 */
    const int64_t log_2 = INT64_C(195103586505167);          /* log(2) in Q48 */
    const int64_t exponent = ((fixed >> 24) * log2_e + (INT64_C(1) << 53)) >> 54;
    const struct penstock_reduced reduced = {(int32_t)exponent,
                                             (int32_t)((fixed - exponent * log_2) >> 17)};
    return reduced;
}

/* The Taylor series 1 + r/first * (1 + r/(first + 1) * (1 + ..)) in Q30; r is in Q31.
 * It is exp(r) for first = 1 and (exp(r) - 1) / r for first = 2. */
static inline int32_t penstock_series(int32_t r, int32_t first) {
    const int32_t one = INT32_C(1) << 30;
    int32_t sum = one;
    for (int32_t k = 9; k >= first; k--) {
        sum = one + (int32_t)(((int64_t)sum * r) >> 31) / k;
    }
    return sum;
}

/* exp(x) for any x; 0 and infinity where it leaves the range of floats. */
static inline float penstock_exp(float x) {
    if (x != x) {
        return x;
    }
    if (x > 89.0f) {
        return penstock_float_of(PENSTOCK_INFINITY_BITS);
    }
    if (x < -104.0f) {
        return 0.0f;
    }
    const struct penstock_reduced reduced = penstock_reduce(x);
    return penstock_scaled((float)penstock_series(reduced.rest, 1), reduced.exponent - 30);
}

/* exp(x) - 1 for x <= 0, with an error below 2 ulp. */
static inline float penstock_exp_minus_one(float x) {
    if (x < -0.34375f) {
        return penstock_exp(x) - 1.0f;
    }
    const struct penstock_reduced reduced = penstock_reduce(x);
    return x * penstock_scaled((float)penstock_series(reduced.rest, 2), -30);
}

#endif
