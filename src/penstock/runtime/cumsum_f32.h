/* cumsum_f32: sums of the elements up to each one, along one axis (cumsum.h).
 *   x, y  (outer, depth, inner)  float */
#ifndef PENSTOCK_CUMSUM_F32_H
#define PENSTOCK_CUMSUM_F32_H

#include "cumsum.h"
#include "real.h"

struct cumsum_f32 {
    PENSTOCK_CUMSUM_MEMBERS;
};

PENSTOCK_KERNEL void cumsum_f32(const struct cumsum_f32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_CUMSUM(float, 0.0f, sum + penstock_get_f32(in, place), penstock_put_f32)
}

#endif
