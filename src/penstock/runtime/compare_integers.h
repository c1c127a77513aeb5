/* compare_integers: element-wise comparison of plain integers; inputs may be broadcast.
 *   a, b  integers of `in_bytes` bytes; those of 4 and 8 bytes are signed
 *   y     bool     0 or 1
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/comparisons.h. */
#ifndef PENSTOCK_COMPARE_INTEGERS_H
#define PENSTOCK_COMPARE_INTEGERS_H

#include "compare.h"
#include "integers.h"

struct compare_integers {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t in_bytes, in_signed;
    PENSTOCK_RELATION_MEMBER;
};

#define PENSTOCK_ELEMENT(row, index) penstock_get_integer(row, index, p->in_bytes, p->in_signed)
PENSTOCK_KERNEL void compare_integers(const struct compare_integers *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_TO_S8(int64_t, PENSTOCK_ELEMENT, PENSTOCK_HOLDS(p->relation, a, b))
}
#undef PENSTOCK_ELEMENT

#endif
