/* exponential.h: exp of floats by operations in single precision, each rounded, so that it is the
 * same on every processor and needs no mathematical library.  The error is below 1 unit in the last
 * place (ulp) where the result is not subnormal. */
#ifndef PENSTOCK_EXPONENTIAL_H
#define PENSTOCK_EXPONENTIAL_H

#include "float_bits.h"
#include "real.h"
#include "view.h"

/* exp(r) - 1 for r in [-0.35, 0.35]. */
static inline float penstock_exp_near_zero(float r) {
    float sum = 0.0013814172f;
    sum = penstock_product(sum, r) + 0.008368922f;
    sum = penstock_product(sum, r) + 0.041668408f;
    sum = penstock_product(sum, r) + 0.1666652f;
    sum = penstock_product(sum, r) + 0.49999994f;
    return r + penstock_product(penstock_product(r, r), sum);
}

/* exp(x) for any x; 0 and infinity where it leaves the range of floats.  Inlined everywhere: else
 * the cycles of a kernel would depend on how many others call it. */
PENSTOCK_INLINE_KERNEL float penstock_exp(float x) {
    if (!(x <= 89.0f)) {
        return x != x ? x : penstock_float_of(PENSTOCK_INFINITY_BITS);
    }
    if (x < -104.0f) {
        return 0.0f;
    }
    const float quotient = penstock_product(x, 1.442695f); /* 1 / log(2) */
    const int32_t exponent = (int32_t)(quotient + (x < 0.0f ? -0.5f : 0.5f));
    const float n = (float)exponent;
    /* log(2) in two parts; the products by the first, of 15 bits, are exact. */
    const float rest = x - penstock_product(n, 0.69314575f) - penstock_product(n, 1.4286068e-6f);
    return penstock_scaled(1.0f + penstock_exp_near_zero(rest), exponent);
}

/* exp(x) - 1 for x < 0, with an error below 2 ulp. */
static inline float penstock_exp_minus_one(float x) {
    return x < -0.34375f ? penstock_exp(x) - 1.0f : penstock_exp_near_zero(x);
}

#endif
