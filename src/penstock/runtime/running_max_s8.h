/* running_max_s8: running maximum over rows, in windows along columns, clamped.
 *   x  (1, H,    W,  C)  int8
 *   y  (1, rows, Wo, C)  int8
 * Computes rows [lower, upper) of y, continuing from row lower - 1 of y. */
#ifndef PENSTOCK_RUNNING_MAX_S8_H
#define PENSTOCK_RUNNING_MAX_S8_H

#include "fixedpoint.h"
#include "running.h"

struct running_max_s8 {
    PENSTOCK_COLUMN_MEMBERS;
    int32_t least, most;
};

PENSTOCK_KERNEL void running_max_s8(const struct running_max_s8 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_ACCUMULATE_ROWS(INT8_MIN, before[at], result = *tap > result ? *tap : result,
                             out[at] = (int8_t)penstock_clamp(result, p->least, p->most))
}

#endif
