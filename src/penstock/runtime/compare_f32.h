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

#define PENSTOCK_COMPARE_F32(holds)                                                               \
    PENSTOCK_FOR_EACH_CHANNEL(float, penstock_get_f32, out[index] = (int8_t)(holds));             \
    break
PENSTOCK_KERNEL void compare_f32(const struct compare_f32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t relation = p->relation;
    PENSTOCK_FOR_EACH_PAIR_OF_PIXELS(switch (relation) {
        case 1:
            PENSTOCK_COMPARE_F32(a < b);
        case 2:
            PENSTOCK_COMPARE_F32(a == b);
        case 1 | 2:
            PENSTOCK_COMPARE_F32(a <= b);
        case 4:
            PENSTOCK_COMPARE_F32(a > b);
        case 1 | 4:
            PENSTOCK_COMPARE_F32(a != b);
        default: /* 2 | 4 */
            PENSTOCK_COMPARE_F32(a >= b);
    })
}
#undef PENSTOCK_COMPARE_F32

#endif
