/* add_s8: a + sign1 * b, element by element, with requantisation and clamp; inputs may be
 * broadcast.
 *   a, b, y  int8     both inputs are brought to one scale with 20 extra bits.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/integer_ops/add.h, reference/sub.h. */
#ifndef PENSTOCK_ADD_S8_H
#define PENSTOCK_ADD_S8_H

#include "broadcast.h"
#include "fixedpoint.h"

struct add_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t zero0, zero1, multiplier0, multiplier1, shift0, shift1;
    int32_t sign1; /* 1 adds, -1 subtracts */
    int32_t out_multiplier, out_shift, out_zero, least, most;
};

PENSTOCK_KERNEL void add_s8(const struct add_s8 *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
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
                const int32_t sum =
                    penstock_multiply(left * (1 << 20), p->multiplier0, p->shift0) +
                    p->sign1 * penstock_multiply(right * (1 << 20), p->multiplier1, p->shift1);
                const int32_t scaled =
                    penstock_multiply(sum, p->out_multiplier, p->out_shift) + p->out_zero;
                *out++ = (int8_t)penstock_clamp(scaled, p->least, p->most);
            }
        }
    }
}

#endif
