/* cumsum_s8: sums of the elements up to each one, along one axis.
 *   x, y  (outer, depth, inner)  int8
 * Sums begin with -zero, have 19 extra bits, and wrap around.  Computes all rows of y.
 * Source: TensorFlow Lite, reference/cumsum.h. */
#ifndef PENSTOCK_CUMSUM_S8_H
#define PENSTOCK_CUMSUM_S8_H

#include "fixedpoint.h"
#include "view.h"

struct cumsum_s8 {
    int32_t outer, depth, inner;
    int32_t exclusive, reverse; /* leaves out the element; sums from the end */
    int32_t zero, out_zero, out_multiplier, out_shift;
};

PENSTOCK_KERNEL void cumsum_s8(const struct cumsum_s8 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    const int8_t *in = penstock_read_row(x, 0);
    int8_t *out = penstock_write_row(y, 0);
    for (int32_t k = 0; k < p->outer * p->inner; k++) {
        const int32_t first = k / p->inner * p->depth * p->inner + k % p->inner;
        int32_t sum = -p->zero * (1 << 19);
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t place = first + (p->reverse ? p->depth - 1 - i : i) * p->inner;
            const int32_t element = (in[place] - p->zero) * (1 << 19);
            const int32_t before = sum;
            sum = (int32_t)((uint32_t)sum + (uint32_t)element);
            const int32_t scaled = penstock_multiply(p->exclusive ? before : sum, p->out_multiplier,
                                                     p->out_shift);
            const int32_t bounded = penstock_clamp(scaled, -512, 512);
            out[place] = (int8_t)penstock_clamp(bounded + p->out_zero, -128, 127);
        }
    }
}

#endif
