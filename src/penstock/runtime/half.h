/* half.h: numbers of IEEE 754 binary16, as their bits. */
#ifndef PENSTOCK_HALF_H
#define PENSTOCK_HALF_H

#include "float_bits.h"

#define PENSTOCK_HALF_REBIAS UINT32_C(0x38000000) /* 127 - 15 in the exponent of binary32 */

static inline float penstock_of_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude < 0x0400) { /* subnormal: a multiple of 2^-24 */
        const float steps = (float)(int32_t)magnitude * penstock_power_of_two(-24);
        return penstock_float_of(penstock_bits_of(steps) | sign);
    }
    const uint32_t special = magnitude < 0x7c00 ? 0 : PENSTOCK_HALF_REBIAS;
    return penstock_float_of(((magnitude << 13) + PENSTOCK_HALF_REBIAS + special) | sign);
}

/* Rounds to nearest, ties to even. */
static inline uint16_t penstock_half_of(float x) {
    const uint32_t bits = penstock_bits_of(x), magnitude = bits & ~PENSTOCK_SIGN_BIT;
    const uint16_t sign = (uint16_t)((bits & PENSTOCK_SIGN_BIT) >> 16);
    if (magnitude > PENSTOCK_INFINITY_BITS) {
        return sign | 0x7e00;
    }
    if (magnitude >= UINT32_C(0x47800000)) { /* 2^16 */
        return sign | 0x7c00;
    }
    if (magnitude < UINT32_C(0x38800000)) { /* 2^-14: the sum rounds to multiples of 2^-24 */
        const uint32_t sum = penstock_bits_of(penstock_float_of(magnitude) + 0.5f);
        return sign | (uint16_t)(sum - penstock_bits_of(0.5f));
    }
    const uint32_t rounded = magnitude + 0x0fff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded - PENSTOCK_HALF_REBIAS) >> 13);
}

#endif
