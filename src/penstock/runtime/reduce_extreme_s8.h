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
    for (int32_t i = n; i < n + p->span_n; i++) {
        for (int32_t j = h; j < h + p->span_h; j++) {
            const int8_t *in = penstock_read_row(x, i * p->in_h + j);
            for (int32_t k = w; k < w + p->span_w; k++) {
                for (int32_t l = c; l < c + p->span_c; l++) {
                    const int8_t element = in[k * p->in_c + l];
                    found = p->sign * element > p->sign * found ? element : found;
                }
            }
        }
    }
    return found;
}

PENSTOCK_KERNEL void reduce_extreme_s8(const struct reduce_extreme_s8 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t out_h = p->in_h / p->span_h;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->in_w; w += p->span_w) {
            for (int32_t c = 0; c < p->in_c; c += p->span_c) {
                const int32_t n = row / out_h * p->span_n;
                *out++ = reduce_extreme_s8_find(p, x, n, row % out_h * p->span_h, w, c);
            }
        }
    }
}

#endif
