/* floor_mod_s32: a - b * floor(a / b), element by element; inputs may be broadcast.
 *   a, b, y  int32_t  a where b is 0
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, kernels/internal/reference/floor_mod.h. */
#ifndef PENSTOCK_FLOOR_MOD_S32_H
#define PENSTOCK_FLOOR_MOD_S32_H

#include "floor_divide.h"
#include "plain.h"

struct floor_mod_s32 {
    PENSTOCK_BROADCAST_MEMBERS;
};

PENSTOCK_KERNEL void floor_mod_s32(const struct floor_mod_s32 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR(int32_t, s32, penstock_floor_modulo(a, b))
}

#endif
