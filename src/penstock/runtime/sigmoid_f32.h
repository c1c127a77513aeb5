/* sigmoid_f32.h: logistic function and hyperbolic tangent of floats, with errors below 3 and below
 * 2 units in the last place. */
#ifndef PENSTOCK_SIGMOID_F32_H
#define PENSTOCK_SIGMOID_F32_H

#include "exponential.h"

/* 1 / (1 + exp(-x)).  Below -9, exp(x) as in the reference, which is 1.0001 times too large. */
static inline float penstock_logistic(float x) {
    const float power = penstock_exp(-penstock_magnitude(x));
    if (!(x >= -9.0f && x <= 20.0f)) {
        return x > 0.0f ? 1.0f : power;
    }
    return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}

/* tanh(x): near 0 a continued fraction, x / (1 + x^2 / (3 + x^2 / (5 + ..))). */
static inline float penstock_tanh(float x) {
    const float size = penstock_magnitude(x);
    if (size > 1.0f) {
        const float distance = 2.0f / (1.0f + penstock_exp(2.0f * size));
        return x < 0.0f ? distance - 1.0f : 1.0f - distance;
    }
    const float square = x * x;
    float denominator = 13.0f;
    for (int32_t n = 11; n > 0; n -= 2) {
        const float fraction = square / denominator;
        denominator = (float)n + fraction;
    }
    return x / denominator;
}

#endif
