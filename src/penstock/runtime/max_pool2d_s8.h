/* max_pool2d_s8: the largest element of a sliding window, clamped.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/integer_ops/pooling.h. */
#ifndef PENSTOCK_MAX_POOL2D_S8_H
#define PENSTOCK_MAX_POOL2D_S8_H

#include "fixedpoint.h"
#include "pool.h"

struct max_pool2d_s8 {
    PENSTOCK_POOL_MEMBERS;
};

PENSTOCK_KERNEL void max_pool2d_s8(const struct max_pool2d_s8 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t step = p->dilation_w * p->in_c;
    for (int32_t row = lower; row < upper; row++) {
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top; /* within its image */
        const int32_t first_row = row / p->out_h * p->in_h + top;
        const penstock_span rows =
            penstock_pool_taps(top, p->kernel_h, p->dilation_h, p->in_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const penstock_span columns =
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);
            const int32_t before = (left + columns.lower * p->dilation_w) * p->in_c;
            for (int32_t c = 0; c < p->out_c; c++) {
                int32_t largest = INT8_MIN;
                for (int32_t k = rows.lower; k < rows.upper; k++) {
                    const int8_t *in =
                        penstock_read_row(x, first_row + k * p->dilation_h) + before + c;
                    for (int32_t l = columns.lower; l < columns.upper; l++, in += step) {
                        largest = *in > largest ? *in : largest;
                    }
                }
                out[column * p->out_c + c] = (int8_t)penstock_clamp(largest, p->least, p->most);
            }
        }
    }
}

#endif
