/* fixedpoint.h: TFLite's reference requantisation, bit-exact ("double rounding").
 * Source: TensorFlow Lite, kernels/internal/common.cc; gemmlowp, fixedpoint.h. */
#ifndef PENSTOCK_FIXEDPOINT_H
#define PENSTOCK_FIXEDPOINT_H

#include <stdint.h>

/* round(a * b / 2^31); a and b must not both be INT32_MIN.
 * gemmlowp nudges negative products by 1 - 2^30 and truncates: that is the same number, because
 * truncating a negative n / d is floor((n + d - 1) / d). */
static inline int32_t penstock_high_multiply(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

/* round(x / 2^exponent), ties away from zero; exponent within [0, 31]. */
static inline int32_t penstock_rounding_shift(int32_t x, int32_t exponent) {
    const int32_t mask = (int32_t)((UINT32_C(1) << exponent) - 1);
    const int32_t threshold = (mask >> 1) + (x < 0);
    return (x >> exponent) + ((x & mask) > threshold);
}

/* x * 2^exponent modulo 2^32. */
static inline int32_t penstock_left_shift(int32_t x, int32_t exponent) {
    return (int32_t)((uint32_t)x << exponent);
}

/* x * multiplier * 2^(shift - 31), rounded twice. */
static inline int32_t penstock_multiply(int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    return penstock_rounding_shift(
        penstock_high_multiply(penstock_left_shift(x, left), multiplier), right);
}

/* x * multiplier * 2^(shift - 31), rounded once; shift within [-31, 30]. */
static inline int32_t penstock_multiply_once(int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t total = 31 - shift;
    return (int32_t)(((int64_t)x * multiplier + (INT64_C(1) << (total - 1))) >> total);
}

/* Multiplies with single or double rounding. */
static inline int32_t penstock_multiply_rounded(int32_t x, int32_t multiplier, int32_t shift,
                                                int32_t once) {
    return once ? penstock_multiply_once(x, multiplier, shift)
                : penstock_multiply(x, multiplier, shift);
}

static inline int32_t penstock_clamp(int32_t x, int32_t least, int32_t most) {
    return x < least ? least : (x > most ? most : x);
}

#endif
