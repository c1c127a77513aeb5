/* power_f32: a to the power of b, element by element; inputs may be broadcast.
 *   a, b, y  float
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_POWER_F32_H
#define PENSTOCK_POWER_F32_H

#include "exponential.h"
#include "integral.h"
#include "logarithm.h"
#include "plain.h"

struct power_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

/* NaN if a is negative and b is no integer. */
static inline float power_f32_of(float a, float b) {
    const int negative = a < 0.0f && penstock_floor(b) == b;
    const float power = penstock_exp(b * penstock_log(negative ? -a : a));
    if (b == 0.0f) {
        return 1.0f;
    }
    return negative && penstock_floor(b * 0.5f) != b * 0.5f ? -power : power;
}

PENSTOCK_KERNEL void power_f32(const struct power_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(float, f32, power_f32_of(a, b))
}

#endif
