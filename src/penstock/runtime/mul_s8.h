/* mul_s8: a * b, element by element, with requantisation and clamp; inputs may be broadcast.
 *   a, b, y  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/integer_ops/mul.h. */
#ifndef PENSTOCK_MUL_S8_H
#define PENSTOCK_MUL_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct mul_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, out_multiplier, out_shift, out_zero, least, most;
};

static inline int32_t mul_s8_element(const struct mul_s8 *p, int32_t a, int32_t b) {
    const int32_t left = a - p->zero0;
    const int32_t right = b - p->zero1;
    const int32_t scaled =
        penstock_multiply(left * right, p->out_multiplier, p->out_shift) + p->out_zero;
    return penstock_clamp(scaled, p->least, p->most);
}

PENSTOCK_KERNEL void mul_s8(const struct mul_s8 *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int32_t, penstock_get_s8, mul_s8_element(p, a, b))
}

#endif
