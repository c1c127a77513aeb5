/* erf_f32: the error function, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_ERF_F32_H
#define PENSTOCK_ERF_F32_H

#include "float_bits.h"
#include "plain.h"

struct erf_f32 {
    int32_t width;
};

/* erf(x) with an error below 4e-7, by integers in Q30: 1 - 1 / (1 + a x + b x^2 + ..)^16.
 * Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28. */
static inline float erf_f32_of(float x) {
    static const int32_t coefficients[6] = {46239, 296962, 163224, 9954153, 45399965, 75723579};
    if (x != x) {
        return x;
    }
    const float size = penstock_magnitude(x);
    const int64_t position = size < 4.0f ? (int64_t)(size * 268435456.0f) : INT64_C(1) << 30;
    int64_t sum = 0;
    for (int32_t k = 0; k < 6; k++) {
        sum = ((sum + coefficients[k]) * position) >> 28;
    }
    const int64_t one = INT64_C(1) << 30;
    int64_t power = (INT64_C(1) << 60) / (one + sum);
    for (int32_t k = 0; k < 4; k++) {
        power = (power * power) >> 30;
    }
    const float found = penstock_scaled((float)(one - power), -30);
    return x < 0.0f ? -found : found;
}

PENSTOCK_KERNEL void erf_f32(const struct erf_f32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, erf_f32_of(a))
}

#endif
