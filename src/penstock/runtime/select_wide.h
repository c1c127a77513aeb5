/* select_wide: elements of a if the condition holds, otherwise of b; inputs may be broadcast.
 *   condition  bool
 *   a, b, y    elements of `element_bytes` bytes
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/select.cc. */
#ifndef PENSTOCK_SELECT_WIDE_H
#define PENSTOCK_SELECT_WIDE_H

#include "broadcast.h"
#include "integers.h"

struct select_wide {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t step2_n, step2_h, step2_w, step2_c;
    int32_t element_bytes;
};

PENSTOCK_KERNEL void select_wide(const struct select_wide *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *condition = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *a = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        const int8_t *b = penstock_read_row(&x[2], n * p->step2_n + h * p->step2_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int32_t first = w * p->step1_w + c * p->step1_c;
                const int32_t second = w * p->step2_w + c * p->step2_c;
                const int64_t chosen =
                    condition[w * p->step0_w + c * p->step0_c]
                        ? penstock_get_integer(a, first, p->element_bytes, 1)
                        : penstock_get_integer(b, second, p->element_bytes, 1);
                penstock_put_integer(out, w * p->out_c + c, p->element_bytes, chosen);
            }
        }
    }
}

#endif
