/* cast_integers_f32: real numbers of integers, rounded to nearest.
 *   x  integers or bool  rows of `width` elements
 *   y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/cast.cc. */
#ifndef PENSTOCK_CAST_INTEGERS_F32_H
#define PENSTOCK_CAST_INTEGERS_F32_H

#include "integers.h"
#include "real.h"
#include "view.h"

struct cast_integers_f32 {
    int32_t width;
    int32_t in_bytes, in_signed;   /* 1, 2, 4 or 8; 0 or 1 */
};

PENSTOCK_KERNEL void cast_integers_f32(const struct cast_integers_f32 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            const int64_t element =
                penstock_get_integer(in, k, p->in_bytes, p->in_signed);
            penstock_put_f32(out, k, (float)element);
        }
    }
}

#endif
