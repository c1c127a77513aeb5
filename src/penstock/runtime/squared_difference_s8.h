/* squared_difference_s8: (a - b)^2, element by element, with requantisation; inputs may be
 * broadcast.
 *   a, b, y  int8     both inputs are brought to one scale with 7 extra bits.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/squared_difference.cc. */
#ifndef PENSTOCK_SQUARED_DIFFERENCE_S8_H
#define PENSTOCK_SQUARED_DIFFERENCE_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct squared_difference_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, multiplier0, multiplier1, shift0, shift1;
    int32_t out_multiplier, out_shift, out_zero;
};

PENSTOCK_KERNEL void squared_difference_s8(const struct squared_difference_s8 *p,
                                           const penstock_source *x, const penstock_sink *y,
                                           int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int32_t left = a[w * p->step0_w + c * p->step0_c] - p->zero0;
                const int32_t right = b[w * p->step1_w + c * p->step1_c] - p->zero1;
                const int32_t difference =
                    penstock_multiply(left * (1 << 7), p->multiplier0, p->shift0) -
                    penstock_multiply(right * (1 << 7), p->multiplier1, p->shift1);
                const int32_t scaled =
                    penstock_multiply(difference * difference, p->out_multiplier, p->out_shift) +
                    p->out_zero;
                *out++ = (int8_t)penstock_clamp(scaled, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
