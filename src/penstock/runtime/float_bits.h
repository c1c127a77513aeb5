/* float_bits.h: the representation of floats (IEEE 754 binary32). */
#ifndef PENSTOCK_FLOAT_BITS_H
#define PENSTOCK_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

#define PENSTOCK_SIGN_BIT UINT32_C(0x80000000)
#define PENSTOCK_INFINITY_BITS UINT32_C(0x7f800000)
#define PENSTOCK_NAN_BITS UINT32_C(0x7fc00000)

static inline uint32_t penstock_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float penstock_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Whether the float of these bits is below zero; a comparison of floats takes longer on some cores. */
static inline int32_t penstock_is_below_zero(uint32_t bits) {
    return bits - (PENSTOCK_SIGN_BIT + 1) < PENSTOCK_INFINITY_BITS;
}

/* |x|, also of NaN and -0. */
static inline float penstock_magnitude(float x) {
    return penstock_float_of(penstock_bits_of(x) & ~PENSTOCK_SIGN_BIT);
}

/* 2^n for n in [-126, 127]. */
static inline float penstock_power_of_two(int32_t n) {
    return penstock_float_of((uint32_t)(n + 127) << 23);
}

/* x * 2^n for n in [-252, 254]; rounds once unless the result is subnormal. */
static inline float penstock_scaled(float x, int32_t n) {
    return x * penstock_power_of_two(n / 2) * penstock_power_of_two(n - n / 2);
}

#endif
