/* floor_div_f32: floor(a / b), element by element; inputs may be broadcast.
 *   a, b, y  float  the quotient is computed in double precision, so that its floor is exact
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/internal/reference/floor_div.h. */
#ifndef PENSTOCK_FLOOR_DIV_F32_H
#define PENSTOCK_FLOOR_DIV_F32_H

#include "float_bits.h"
#include "plain.h"

struct floor_div_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

/* floor(a / b); keeps the sign of zero. */
static inline float penstock_quotient_floor(float a, float b) {
    const double quotient = (double)a / (double)b;
    if (!(quotient > -4503599627370496.0 && quotient < 4503599627370496.0)) {
        return (float)quotient; /* from 2^52 on, doubles are integers; infinities and NaN */
    }
    const double truncated = (double)(int64_t)quotient;
    const float floor = (float)(truncated > quotient ? truncated - 1.0 : truncated);
    const uint32_t sign = (penstock_bits_of(a) ^ penstock_bits_of(b)) & PENSTOCK_SIGN_BIT;
    return penstock_float_of(penstock_bits_of(floor) | sign);
}

PENSTOCK_KERNEL void floor_div_f32(const struct floor_div_f32 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(float, f32, penstock_quotient_floor(a, b))
}

#endif
