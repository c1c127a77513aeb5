/* complementary_error.h: erfc of floats, with an error below 24 units in the last place (ulp) where x
 * is below 4, and below 7 where it is below 2. */
#ifndef PENSTOCK_COMPLEMENTARY_ERROR_H
#define PENSTOCK_COMPLEMENTARY_ERROR_H

#include "exponential.h"
#include "float_bits.h"
#include "real.h"

/* t * exp(p(t) - x^2), where t = 1 / (1 + x / 2). */
static inline float penstock_erfc(float x) {
    static const float coefficients[10] = {
        -1.26542294f,  0.998133421f,  0.390863478f, 0.0146937938f, 0.0590993389f,
        -0.187967986f, -0.567295074f, 1.0606724f,   -0.640320122f, 0.137543783f};
    const float size = penstock_magnitude(x);
    const float t = 1.0f / (1.0f + 0.5f * size);
    float sum = coefficients[9];
    for (int32_t k = 8; k >= 0; k--) {
        sum = penstock_product(sum, t) + coefficients[k];
    }
    const float found = penstock_product(t, penstock_exp(sum - penstock_product(size, size)));
    return x < 0.0f ? 2.0f - found : found;
}

#endif
