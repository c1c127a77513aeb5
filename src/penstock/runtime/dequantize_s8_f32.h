/* dequantize_s8_f32: y = scale * (x - zero_point), in single precision.
 *   x  int8   rows of `width` elements
 *   y  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/dequantize.h. */
#ifndef PENSTOCK_DEQUANTIZE_S8_F32_H
#define PENSTOCK_DEQUANTIZE_S8_F32_H

#include "real.h"
#include "view.h"

struct dequantize_s8_f32 {
    int32_t width, zero_point;
    const float *scale; /* one */
};

PENSTOCK_KERNEL void dequantize_s8_f32(const struct dequantize_s8_f32 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            penstock_put_f32(out, k, *p->scale * (float)(in[k] - p->zero_point));
        }
    }
}

#endif
