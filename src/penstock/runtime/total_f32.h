/* total_f32: sum along axes.
 *   x  (in_n, in_h, in_w, in_c)  float
 *   y  the same, extent 1 along reduced axes  float
 * Computes rows [lower, upper) of y.  Sums are rounded after each addition, in order of indices. */
#ifndef PENSTOCK_TOTAL_F32_H
#define PENSTOCK_TOTAL_F32_H

#include "real.h"
#include "reduction.h"

struct total_f32 {
    PENSTOCK_REDUCTION_MEMBERS;
};

/* Sum of the input elements of output (n, h, w, c). */
static inline float total_f32_sum(const struct total_f32 *p, const penstock_source *x, int32_t n,
                                  int32_t h, int32_t w, int32_t c) {
    float sum = 0.0f;
    PENSTOCK_FOR_EACH_REDUCED(sum += penstock_get_f32(in, at))
    return sum;
}

PENSTOCK_KERNEL void total_f32(const struct total_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_REDUCTION(const float sum = total_f32_sum(p, x, n, h, w, c);
                                penstock_put_f32(out, 0, sum); out += sizeof sum)
}

#endif
