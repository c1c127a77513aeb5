/* prelu_s8: x above zero, slope * x below, with requantisation; the slopes may be broadcast.
 *   x, slopes, y  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/prelu.h. */
#ifndef PENSTOCK_PRELU_S8_H
#define PENSTOCK_PRELU_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct prelu_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, above_multiplier, above_shift, below_multiplier, below_shift, out_zero;
};

PENSTOCK_KERNEL void prelu_s8(const struct prelu_s8 *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                const int32_t value = a[w * p->step0_w + c * p->step0_c] - p->zero0;
                const int32_t slope = b[w * p->step1_w + c * p->step1_c] - p->zero1;
                const int32_t scaled =
                    value >= 0
                        ? penstock_multiply(value, p->above_multiplier, p->above_shift)
                        : penstock_multiply(value * slope, p->below_multiplier, p->below_shift);
                *out++ = (int8_t)penstock_clamp(scaled + p->out_zero, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
