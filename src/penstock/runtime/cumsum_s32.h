/* cumsum_s32: sums of the elements up to each one, along one axis.
 *   x, y  (outer, depth, inner)  int32_t
 * Computes all rows of y.
 * Source: TensorFlow Lite, reference/cumsum.h. */
#ifndef PENSTOCK_CUMSUM_S32_H
#define PENSTOCK_CUMSUM_S32_H

#include "wide.h"
#include "view.h"

struct cumsum_s32 {
    int32_t outer, depth, inner;
    int32_t exclusive, reverse; /* leaves out the element; sums from the end */
};

PENSTOCK_KERNEL void cumsum_s32(const struct cumsum_s32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    const int8_t *in = penstock_read_row(x, 0);
    int8_t *out = penstock_write_row(y, 0);
    for (int32_t k = 0; k < p->outer * p->inner; k++) {
        const int32_t first = k / p->inner * p->depth * p->inner + k % p->inner;
        int32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t place = first + (p->reverse ? p->depth - 1 - i : i) * p->inner;
            const int32_t element = penstock_get_s32(in, place);
            const int32_t before = sum;
            sum = (int32_t)((uint32_t)sum + (uint32_t)element);
            penstock_put_s32(out, place, p->exclusive ? before : sum);
        }
    }
}

#endif
