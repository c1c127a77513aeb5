/* square_root.h: the correctly rounded square root of a float, by the instruction of the processor
 * or by integer arithmetic. */
#ifndef PENSTOCK_SQUARE_ROOT_H
#define PENSTOCK_SQUARE_ROOT_H

#include "float_bits.h"

/* The integer part of the square root of x < 2^50. */
static inline uint32_t penstock_integer_root(uint64_t x) {
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 48; bit; bit >>= 2) {
        const uint64_t trial = root + bit;
        root >>= 1;
        if (x >= trial) {
            x -= trial;
            root += bit;
        }
    }
    return (uint32_t)root;
}

/* sqrt(x), rounded to nearest; NaN for negative numbers. */
static inline float penstock_square_root(float x) {
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return root;
#else
    if (!(x > 0.0f)) {
        return x < 0.0f ? penstock_float_of(PENSTOCK_NAN_BITS) : x;
    }
    if (penstock_bits_of(x) == PENSTOCK_INFINITY_BITS) {
        return x;
    }
    int32_t extra = 0;
    if (x < penstock_power_of_two(-126)) { /* subnormal */
        x *= penstock_power_of_two(24);
        extra = 12;
    }
    const uint32_t bits = penstock_bits_of(x);
    const int32_t exponent = (int32_t)(bits >> 23) - 127;
    const int32_t odd = exponent & 1;
    const uint64_t significand = ((bits & 0x7fffffU) | 0x800000U) << odd;
    /* A root of 25 bits.  It is no tie: the square of an odd number is odd. */
    const uint32_t root = penstock_integer_root(significand << 25);
    return (float)(int32_t)((root + 1) >> 1) *
           penstock_power_of_two((exponent - odd) / 2 - 23 - extra);
#endif
}

#endif
