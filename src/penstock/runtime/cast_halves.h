/* cast_halves: real numbers between float and binary16.
 *   x  float, or halves          rows of `width` elements
 *   y  halves if `narrows`, rounded to nearest, ties to even; otherwise float
 * Computes rows [lower, upper) of y.
 * Source: IEEE 754, section 4.3.1. */
#ifndef PENSTOCK_CAST_HALVES_H
#define PENSTOCK_CAST_HALVES_H

#include "half.h"
#include "real.h"
#include "view.h"

struct cast_halves {
    int32_t width;
    int32_t narrows; /* 0 or 1 */
};

PENSTOCK_KERNEL void cast_halves(const struct cast_halves *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            uint16_t half;
            if (p->narrows) {
                half = penstock_half_of(penstock_get_f32(in, k));
                memcpy(out + k * 2, &half, 2);
            } else {
                memcpy(&half, in + k * 2, 2);
                penstock_put_f32(out, k, penstock_of_half(half));
            }
        }
    }
}

#endif
