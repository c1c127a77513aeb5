/* prelu_s8: x above zero, slope * x below, with requantisation; the slopes may be broadcast.
 *   x, slopes, y  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/prelu.h. */
#ifndef PENSTOCK_PRELU_S8_H
#define PENSTOCK_PRELU_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct prelu_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, above_multiplier, above_shift, below_multiplier, below_shift, out_zero;
};

static inline int32_t prelu_s8_element(const struct prelu_s8 *p, int32_t a, int32_t b) {
    const int32_t value = a - p->zero0;
    const int32_t slope = b - p->zero1;
    const int32_t scaled =
        value >= 0 ? penstock_multiply(value, p->above_multiplier, p->above_shift)
                   : penstock_multiply(value * slope, p->below_multiplier, p->below_shift);
    return penstock_clamp(scaled + p->out_zero, INT8_MIN, INT8_MAX);
}

PENSTOCK_KERNEL void prelu_s8(const struct prelu_s8 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int32_t, penstock_get_s8, prelu_s8_element(p, a, b))
}

#endif
