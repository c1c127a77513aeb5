/* add_s8: a + sign1 * b, element by element, with requantisation and clamp; inputs may be
 * broadcast.
 *   a, b, y  int8     both inputs are brought to one scale with 20 extra bits.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/integer_ops/add.h, reference/sub.h. */
#ifndef PENSTOCK_ADD_S8_H
#define PENSTOCK_ADD_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct add_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, multiplier0, multiplier1, shift0, shift1;
    int32_t sign1; /* 1 adds, -1 subtracts */
    int32_t out_multiplier, out_shift, out_zero, least, most;
};

static inline int32_t add_s8_element(const struct add_s8 *p, int32_t a, int32_t b) {
    const int32_t left = a - p->zero0;
    const int32_t right = b - p->zero1;
    const int32_t sum = penstock_multiply(left * (1 << 20), p->multiplier0, p->shift0) +
                        p->sign1 * penstock_multiply(right * (1 << 20), p->multiplier1, p->shift1);
    const int32_t scaled = penstock_multiply(sum, p->out_multiplier, p->out_shift) + p->out_zero;
    return penstock_clamp(scaled, p->least, p->most);
}

PENSTOCK_KERNEL void add_s8(const struct add_s8 *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int32_t, penstock_get_s8, add_s8_element(p, a, b))
}

#endif
