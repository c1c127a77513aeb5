/* select.h: elements of a if the condition holds, otherwise of b; inputs may be broadcast.
 *   condition  bool
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/select.cc. */
#ifndef PENSTOCK_SELECT_H
#define PENSTOCK_SELECT_H

#include "broadcast.h"

/* Members of the parameter structures, after PENSTOCK_BROADCAST_MEMBERS. */
#define PENSTOCK_SELECT_MEMBERS int32_t step2_n, step2_h, step2_w, step2_c

/* `get` reads an element of `type` from a row, and `write` is a statement about `out`, row `row` of
 * y, and the element `chosen`. */
#define PENSTOCK_SELECT(type, get, write)                                                         \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int32_t n = row / p->out_h;                                                         \
        const int32_t h = row % p->out_h;                                                         \
        const int8_t *condition = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);      \
        const int8_t *a = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);              \
        const int8_t *b = penstock_read_row(&x[2], n * p->step2_n + h * p->step2_h);              \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t w = 0; w < p->out_w; w++) {                                                  \
            for (int32_t c = 0; c < p->out_c; c++) {                                              \
                const type chosen = condition[w * p->step0_w + c * p->step0_c]                    \
                                        ? get(a, w * p->step1_w + c * p->step1_c)                 \
                                        : get(b, w * p->step2_w + c * p->step2_c);                \
                write;                                                                            \
            }                                                                                     \
        }                                                                                         \
    }

#endif
