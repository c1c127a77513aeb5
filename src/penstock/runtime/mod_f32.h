/* mod_f32: the remainder of a / b, element by element; inputs may be broadcast.
 *   a, b, y  float
 * It has the sign of a, or that of b if `floored`; NaN if b is 0 or a is infinite.
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_MOD_F32_H
#define PENSTOCK_MOD_F32_H

#include "float_bits.h"
#include "plain.h"

struct mod_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t floored;
};

/* The significand of a finite number that is not 0, and its exponent. */
static inline uint32_t mod_f32_significand(uint32_t bits, int32_t *exponent) {
    uint32_t found = bits & 0x7FFFFF;
    *exponent = (int32_t)(bits >> 23 & 255);
    if (*exponent > 0) {
        return found | 0x800000;
    }
    for (*exponent = 1; found < 0x800000; found <<= 1) {
        *exponent -= 1;
    }
    return found;
}

/* Remainder of positive numbers by long division, which is exact. */
static inline float mod_f32_positive(float a, float b) {
    int32_t of_a, of_b;
    uint32_t rest = mod_f32_significand(penstock_bits_of(a), &of_a);
    const uint32_t divisor = mod_f32_significand(penstock_bits_of(b), &of_b);
    for (; of_a >= of_b; of_a--) {
        rest = (rest >= divisor ? rest - divisor : rest) << (of_a > of_b);
    }
    return rest == 0 ? 0.0f : penstock_scaled((float)rest, of_b - 150);
}

static inline float mod_f32_of(float a, float b, int32_t floored) {
    const float size = penstock_magnitude(a), divisor = penstock_magnitude(b);
    if (!(size <= 3.4028235e38f) || !(divisor > 0.0f)) {
        return penstock_float_of(PENSTOCK_NAN_BITS);
    }
    const float rest = size < divisor ? size : mod_f32_positive(size, divisor);
    const float found = penstock_float_of(penstock_bits_of(rest) |
                                          (penstock_bits_of(a) & PENSTOCK_SIGN_BIT));
    return floored && rest != 0.0f && (a < 0.0f) != (b < 0.0f) ? found + b : found;
}

PENSTOCK_KERNEL void mod_f32(const struct mod_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(float, f32, mod_f32_of(a, b, p->floored))
}

#endif
