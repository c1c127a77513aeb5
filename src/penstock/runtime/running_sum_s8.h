/* running_sum_s8: running sum over rows, in windows along columns.
 *   x  (1, H,    W,  C)  int8
 *   y  (1, rows, Wo, C)  int32
 * Computes rows [lower, upper) of y, continuing from row lower - 1 of y. */
#ifndef PENSTOCK_RUNNING_SUM_S8_H
#define PENSTOCK_RUNNING_SUM_S8_H

#include "running.h"

struct running_sum_s8 {
    PENSTOCK_COLUMN_MEMBERS;
    int32_t zero;
};

PENSTOCK_KERNEL void running_sum_s8(const struct running_sum_s8 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_ACCUMULATE_ROWS(0, penstock_get_s32(before, at), result += *tap - p->zero,
                             penstock_put_s32(out, at, result))
}

#endif
