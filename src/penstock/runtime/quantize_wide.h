/* quantize_wide: y = clamp(out_zero + M * (x - in_zero)), rounded twice.
 *   x  rows of `width` elements of 1 or 2 bytes
 *   y  as x, elements of 1, 2 or 4 bytes
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/requantize.h. */
#ifndef PENSTOCK_QUANTIZE_WIDE_H
#define PENSTOCK_QUANTIZE_WIDE_H

#include "fixedpoint.h"
#include "view.h"
#include "wide.h"

struct quantize_wide {
    int32_t width, in_bytes, out_bytes, in_zero, out_zero, multiplier, shift;
};

PENSTOCK_KERNEL void quantize_wide(const struct quantize_wide *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            const int32_t element = p->in_bytes == 1 ? in[k] : penstock_get_s16(in, k);
            const int32_t value =
                penstock_multiply(element - p->in_zero, p->multiplier, p->shift) + p->out_zero;
            if (p->out_bytes == 1) {
                out[k] = (int8_t)penstock_clamp(value, INT8_MIN, INT8_MAX);
            } else if (p->out_bytes == 2) {
                penstock_put_s16(out, k, penstock_clamp(value, INT16_MIN, INT16_MAX));
            } else {
                penstock_put_s32(out, k, value);
            }
        }
    }
}

#endif
