/* arg_extreme_s8: index of the first largest or smallest element along one axis.
 *   x  (N, in_h, in_w, in_c)  int8
 *   y  the same, extent 1 along the axis  int32
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/arg_min_max.h. */
#ifndef PENSTOCK_ARG_EXTREME_S8_H
#define PENSTOCK_ARG_EXTREME_S8_H

#include "reduction.h"

struct arg_extreme_s8 {
    PENSTOCK_REDUCTION_MEMBERS;
    int32_t sign; /* 1 finds the largest, -1 the smallest */
};

/* Index of the extreme along the axis, for output (n, h, w, c). */
static inline int32_t arg_extreme_s8_find(const struct arg_extreme_s8 *p, const penstock_source *x,
                                          int32_t n, int32_t h, int32_t w, int32_t c) {
    int32_t best = -INT32_C(256); /* below every element, whatever the sign */
    int32_t index = 0;
    int32_t found = 0;
    PENSTOCK_FOR_EACH_REDUCED(
        const int32_t element = p->sign * in[at];
        if (element > best) {
            best = element;
            found = index;
        }
        index++)
    return found;
}

PENSTOCK_KERNEL void arg_extreme_s8(const struct arg_extreme_s8 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_REDUCTION(
        const int32_t found = arg_extreme_s8_find(p, x, n, h, w, c);
        memcpy(out, &found, sizeof found);
        out += sizeof found)
}

#endif
