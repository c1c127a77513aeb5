/* compare_f32: element-wise comparison of real numbers; inputs may be broadcast.
 *   a, b  float    NaN is unordered: it differs from every number, and no other relation holds
 *   y     bool     0 or 1
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/comparisons.h. */
#ifndef PENSTOCK_COMPARE_F32_H
#define PENSTOCK_COMPARE_F32_H

#include "broadcast.h"
#include "real.h"

struct compare_f32 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t relation; /* sum of 1: holds for a < b, 2: for a = b, 4: for a > b */
};

PENSTOCK_KERNEL void compare_f32(const struct compare_f32 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const float left = penstock_get_f32(a, w * p->step0_w + c * p->step0_c);
                const float right = penstock_get_f32(b, w * p->step1_w + c * p->step1_c);
                const int32_t order = (left > right) - (left < right);
                const int32_t is_ordered = left <= right || left > right;
                const int32_t holds =
                    is_ordered ? (p->relation >> (order + 1)) & 1 : p->relation == (1 | 4);
                *out++ = (int8_t)holds;
            }
        }
    }
}

#endif
