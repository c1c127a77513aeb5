/* compare_integers: element-wise comparison of plain integers; inputs may be broadcast.
 *   a, b  integers of `in_bytes` bytes; those of 4 and 8 bytes are signed
 *   y     bool     0 or 1
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/comparisons.h. */
#ifndef PENSTOCK_COMPARE_INTEGERS_H
#define PENSTOCK_COMPARE_INTEGERS_H

#include "broadcast.h"
#include "integers.h"

struct compare_integers {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t in_bytes, in_signed;
    int32_t relation; /* sum of 1: holds for a < b, 2: for a = b, 4: for a > b */
};

PENSTOCK_KERNEL void compare_integers(const struct compare_integers *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int64_t left = penstock_get_integer(a, w * p->step0_w + c * p->step0_c,
                                                          p->in_bytes, p->in_signed);
                const int64_t right = penstock_get_integer(b, w * p->step1_w + c * p->step1_c,
                                                           p->in_bytes, p->in_signed);
                const int32_t order = (left > right) - (left < right);
                *out++ = (int8_t)((p->relation >> (order + 1)) & 1);
            }
        }
    }
}

#endif
