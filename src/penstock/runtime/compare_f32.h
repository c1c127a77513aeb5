/* compare_f32: element-wise comparison of real numbers; inputs may be broadcast.
 *   a, b  float    NaN is unordered: it differs from every number, and no other relation holds
 *   y     bool     0 or 1
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/comparisons.h. */
#ifndef PENSTOCK_COMPARE_F32_H
#define PENSTOCK_COMPARE_F32_H

#include "compare.h"
#include "real.h"

struct compare_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
    PENSTOCK_RELATION_MEMBER;
};

static inline int32_t compare_f32_element(const struct compare_f32 *p, float a, float b) {
    const int32_t is_ordered = a <= b || a > b;
    return is_ordered ? PENSTOCK_HOLDS(p->relation, a, b) : p->relation == (1 | 4);
}

PENSTOCK_KERNEL void compare_f32(const struct compare_f32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(float, penstock_get_f32, compare_f32_element(p, a, b))
}

#endif
