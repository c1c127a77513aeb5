/* logarithm.h: log of floats by operations in single precision, each rounded, so that it is the
 * same on every processor and needs no mathematical library.  The error is below 1 unit in the last
 * place (ulp). */
#ifndef PENSTOCK_LOGARITHM_H
#define PENSTOCK_LOGARITHM_H

#include "float_bits.h"
#include "real.h"
#include "view.h"

#define PENSTOCK_ROOT_HALF_BITS UINT32_C(0x3f3504f3) /* of sqrt(1 / 2) */
#define PENSTOCK_ONE_BITS UINT32_C(0x3f800000)

/* log of x > 0, finite: x = 2^k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), s = f / (2 + f),
 * log(1 + f) = 2 * s + s * r = f - s * (f - r), r = 2/3 * s^2 + 2/5 * s^4 + .. */
PENSTOCK_INLINE_KERNEL float penstock_log_of_positive(float x) {
    int32_t k = -127;
    if (x < penstock_power_of_two(-126)) { /* subnormal */
        x *= penstock_power_of_two(24);
        k -= 24;
    }
    const uint32_t bits =
        penstock_bits_of(x) + (PENSTOCK_ONE_BITS - PENSTOCK_ROOT_HALF_BITS);
    const float n = (float)(k + (int32_t)(bits >> 23));
    const float f = penstock_float_of((bits & 0x7fffffU) + PENSTOCK_ROOT_HALF_BITS) - 1.0f;
    const float s = f / (2.0f + f);
    const float square = penstock_product(s, s);
    float r = penstock_product(square, 0.29581103f) + 0.39988747f;
    r = penstock_product(square, penstock_product(square, r) + 0.66666687f);
    /* log(2) in two parts; the products by the first, of 15 bits, are exact. */
    const float high = penstock_product(n, 0.69314575f);
    const float sum = high + f;
    const float lost = f - (sum - high);
    return sum + (lost + (penstock_product(n, 1.4286068e-6f) - penstock_product(s, f - r)));
}

/* log(x) for any x: -infinity for 0, NaN for negative numbers.  Inlined everywhere, as exp. */
PENSTOCK_INLINE_KERNEL float penstock_log(float x) {
    if (x > 0.0f && penstock_bits_of(x) != PENSTOCK_INFINITY_BITS) {
        return penstock_log_of_positive(x);
    }
    if (x == 0.0f) {
        return penstock_float_of(PENSTOCK_INFINITY_BITS | PENSTOCK_SIGN_BIT);
    }
    return x < 0.0f ? penstock_float_of(PENSTOCK_NAN_BITS) : x;
}

#endif
