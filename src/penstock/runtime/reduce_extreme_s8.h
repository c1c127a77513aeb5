/* reduce_extreme_s8: largest or smallest element along axes.
 *   x  (N, in_h, in_w, in_c)  int8
 *   y  the same, extent 1 along reduced axes  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/reduce.h. */
#ifndef PENSTOCK_REDUCE_EXTREME_S8_H
#define PENSTOCK_REDUCE_EXTREME_S8_H

#include "reduction.h"

struct reduce_extreme_s8 {
    PENSTOCK_REDUCTION_MEMBERS;
    int32_t sign; /* 1 finds the largest, -1 the smallest */
};

/* The extreme of the input elements of output (n, h, w, c). */
static inline int8_t reduce_extreme_s8_find(const struct reduce_extreme_s8 *p,
                                            const penstock_source *x, int32_t n, int32_t h,
                                            int32_t w, int32_t c) {
    int8_t found = p->sign > 0 ? INT8_MIN : INT8_MAX;
    PENSTOCK_FOR_EACH_REDUCED(const int8_t element = in[at];
                              found = p->sign * element > p->sign * found ? element : found)
    return found;
}

PENSTOCK_KERNEL void reduce_extreme_s8(const struct reduce_extreme_s8 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_REDUCTION(*out++ = reduce_extreme_s8_find(p, x, n, h, w, c))
}

#endif
