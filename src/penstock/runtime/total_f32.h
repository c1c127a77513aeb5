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
    for (int32_t i = n; i < n + p->span_n; i++) {
        for (int32_t j = h; j < h + p->span_h; j++) {
            const int8_t *in = penstock_read_row(x, i * p->in_h + j);
            for (int32_t k = w; k < w + p->span_w; k++) {
                for (int32_t l = c; l < c + p->span_c; l++) {
                    sum += penstock_get_f32(in, k * p->in_c + l);
                }
            }
        }
    }
    return sum;
}

PENSTOCK_KERNEL void total_f32(const struct total_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t out_h = p->in_h / p->span_h;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        int32_t index = 0;
        for (int32_t w = 0; w < p->in_w; w += p->span_w) {
            for (int32_t c = 0; c < p->in_c; c += p->span_c) {
                const int32_t n = row / out_h * p->span_n;
                const float sum = total_f32_sum(p, x, n, row % out_h * p->span_h, w, c);
                penstock_put_f32(out, index++, sum);
            }
        }
    }
}

#endif
