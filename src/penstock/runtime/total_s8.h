/* total_s8: sum or mean along axes, requantised.
 *   x  (N, in_h, in_w, in_c)  int8
 *   y  the same, extent 1 along reduced axes  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/reduce.h (QuantizedMeanOrSum). */
#ifndef PENSTOCK_TOTAL_S8_H
#define PENSTOCK_TOTAL_S8_H

#include "fixedpoint.h"
#include "reduction.h"

struct total_s8 {
    PENSTOCK_REDUCTION_MEMBERS;
    int32_t in_zero, multiplier, shift, out_zero;
};

/* Sum of the input elements of output (n, h, w, c). */
static inline int32_t total_s8_sum(const struct total_s8 *p, const penstock_source *x, int32_t n,
                                   int32_t h, int32_t w, int32_t c) {
    int32_t sum = 0;
    PENSTOCK_FOR_EACH_REDUCED(sum += in[at] - p->in_zero)
    return sum;
}

PENSTOCK_KERNEL void total_s8(const struct total_s8 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_REDUCTION(
        const int32_t sum = total_s8_sum(p, x, n, h, w, c);
        const int32_t scaled = penstock_multiply(sum, p->multiplier, p->shift);
        *out++ = (int8_t)penstock_clamp(scaled + p->out_zero, INT8_MIN, INT8_MAX))
}

#endif
