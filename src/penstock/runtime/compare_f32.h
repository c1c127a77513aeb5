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

static inline int32_t compare_f32_element(int32_t relation, float a, float b) {
    if (a < b) {
        return relation & 1;
    }
    return a > b ? relation >> 2 : a == b ? relation >> 1 & 1 : relation == (1 | 4);
}

PENSTOCK_KERNEL void compare_f32(const struct compare_f32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t relation = p->relation;
    PENSTOCK_FOR_EACH_PAIR_TO_S8(float, penstock_get_f32, compare_f32_element(relation, a, b))
}

#endif
