/* integral.h: floats rounded to integers. */
#ifndef PENSTOCK_INTEGRAL_H
#define PENSTOCK_INTEGRAL_H

#include "float_bits.h"

/* The largest integer that is not above x; keeps the sign of zero. */
static inline float penstock_floor(float x) {
    if (!(x > -8388608.0f && x < 8388608.0f)) {
        return x; /* from 2^23 on, floats are integers; infinities and NaN */
    }
    const float truncated = (float)(int32_t)x;
    const float floor = truncated > x ? truncated - 1.0f : truncated;
    return penstock_float_of(penstock_bits_of(floor) | (penstock_bits_of(x) & PENSTOCK_SIGN_BIT));
}

/* The nearest integer; the even one of two. */
static inline float penstock_round(float x) {
    const float floor = penstock_floor(x);
    const float remainder = x - floor; /* exact */
    if (remainder == 0.5f) {
        return (int32_t)floor % 2 == 0 ? floor : floor + 1.0f;
    }
    return remainder > 0.5f ? floor + 1.0f : floor;
}

/* The nearest integer; that of two which is further from zero. */
static inline float penstock_round_away(float x) {
    const float magnitude = penstock_float_of(penstock_bits_of(x) & ~PENSTOCK_SIGN_BIT);
    const float floor = penstock_floor(magnitude);
    const float rounded = magnitude - floor >= 0.5f ? floor + 1.0f : floor;
    return penstock_float_of(penstock_bits_of(rounded) | (penstock_bits_of(x) & PENSTOCK_SIGN_BIT));
}

#endif
