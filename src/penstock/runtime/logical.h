/* logical: conjunction or disjunction, element by element; inputs may be broadcast.
 *   a, b, y  bool
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/logical_common.cc. */
#ifndef PENSTOCK_LOGICAL_H
#define PENSTOCK_LOGICAL_H

#include "broadcast.h"

struct logical {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t least_true; /* how many of a and b must be true */
};

PENSTOCK_KERNEL void logical(const struct logical *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int32_t count = (a[w * p->step0_w + c * p->step0_c] != 0) +
                                      (b[w * p->step1_w + c * p->step1_c] != 0);
                *out++ = (int8_t)(count >= p->least_true);
            }
        }
    }
}

#endif
