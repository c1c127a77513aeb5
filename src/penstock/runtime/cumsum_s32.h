/* cumsum_s32: sums of the elements up to each one, along one axis (cumsum.h).
 *   x, y  (outer, depth, inner)  int32_t */
#ifndef PENSTOCK_CUMSUM_S32_H
#define PENSTOCK_CUMSUM_S32_H

#include "cumsum.h"
#include "wide.h"

struct cumsum_s32 {
    PENSTOCK_CUMSUM_MEMBERS;
};

PENSTOCK_KERNEL void cumsum_s32(const struct cumsum_s32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_CUMSUM(int32_t, 0, (int32_t)((uint32_t)sum + (uint32_t)penstock_get_s32(in, place)),
                    penstock_put_s32)
}

#endif
