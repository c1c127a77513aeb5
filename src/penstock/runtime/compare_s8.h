/* compare_s8: element-wise comparison; inputs may be broadcast.
 *   a, b  int8     both are brought to real numbers with 8 extra bits
 *   y     bool     0 or 1
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/comparisons.h. */
#ifndef PENSTOCK_COMPARE_S8_H
#define PENSTOCK_COMPARE_S8_H

#include "compare.h"
#include "fixedpoint.h"

struct compare_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, multiplier0, multiplier1, shift0, shift1;
    PENSTOCK_RELATION_MEMBER;
};

static inline int32_t compare_s8_element(const struct compare_s8 *p, int32_t a, int32_t b) {
    const int32_t left = a - p->zero0;
    const int32_t right = b - p->zero1;
    const int32_t first = penstock_multiply(left * (1 << 8), p->multiplier0, p->shift0);
    const int32_t second = penstock_multiply(right * (1 << 8), p->multiplier1, p->shift1);
    return PENSTOCK_HOLDS(p->relation, first, second);
}

PENSTOCK_KERNEL void compare_s8(const struct compare_s8 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int32_t, penstock_get_s8, compare_s8_element(p, a, b))
}

#endif
