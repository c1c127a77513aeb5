/* mul_s32: a * b modulo 2^32, element by element, with a clamp; inputs may be broadcast.
 *   a, b, y  int32_t
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/mul.h. */
#ifndef PENSTOCK_MUL_S32_H
#define PENSTOCK_MUL_S32_H

#include "plain.h"

struct mul_s32 {
    PENSTOCK_BROADCAST_MEMBERS;
    const int32_t *bounds; /* smallest and largest result */
};

PENSTOCK_KERNEL void mul_s32(const struct mul_s32 *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(int32_t, s32,
                           penstock_bounded_s32((int32_t)((uint32_t)a * (uint32_t)b), p->bounds))
}

#endif
