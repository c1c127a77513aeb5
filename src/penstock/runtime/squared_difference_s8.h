/* squared_difference_s8: (a - b)^2, element by element, with requantisation; inputs may be
 * broadcast.
 *   a, b, y  int8     both inputs are brought to one scale with 7 extra bits.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/squared_difference.cc. */
#ifndef PENSTOCK_SQUARED_DIFFERENCE_S8_H
#define PENSTOCK_SQUARED_DIFFERENCE_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct squared_difference_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, multiplier0, multiplier1, shift0, shift1;
    int32_t out_multiplier, out_shift, out_zero;
};

static inline int32_t squared_difference_s8_element(const struct squared_difference_s8 *p,
                                                    int32_t a, int32_t b) {
    const int32_t left = a - p->zero0;
    const int32_t right = b - p->zero1;
    const int32_t difference = penstock_multiply(left * (1 << 7), p->multiplier0, p->shift0) -
                               penstock_multiply(right * (1 << 7), p->multiplier1, p->shift1);
    const int32_t scaled =
        penstock_multiply(difference * difference, p->out_multiplier, p->out_shift) + p->out_zero;
    return penstock_clamp(scaled, INT8_MIN, INT8_MAX);
}

PENSTOCK_KERNEL void squared_difference_s8(const struct squared_difference_s8 *p,
                                           const penstock_source *x, const penstock_sink *y,
                                           int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int32_t, penstock_get_s8, squared_difference_s8_element(p, a, b))
}

#endif
