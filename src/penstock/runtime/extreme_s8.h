/* extreme_s8: element-wise maximum or minimum; inputs may be broadcast.
 *   a, b, y  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/maximum_minimum.h. */
#ifndef PENSTOCK_EXTREME_S8_H
#define PENSTOCK_EXTREME_S8_H

#include "broadcast.h"

struct extreme_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t larger; /* 1: maximum, 0: minimum */
};

PENSTOCK_KERNEL void extreme_s8(const struct extreme_s8 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int8_t left = a[w * p->step0_w + c * p->step0_c];
                const int8_t right = b[w * p->step1_w + c * p->step1_c];
                *out++ = (left > right) == p->larger ? left : right;
            }
        }
    }
}

#endif
