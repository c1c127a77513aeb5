/* transpose_conv_s8: every input element adds a window of weights to the output.
 *   x  (N, in_h,  in_w,  in_c)              int8
 *   w  (out_c, kernel_h, kernel_w, in_c)    int8
 *   y  (N, out_h, out_w, out_c)             int8
 * Gathers: an output row uses tap k if (row + pad_top - k) is a multiple of the stride.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/integer_ops/transpose_conv.h. */
#ifndef PENSTOCK_TRANSPOSE_CONV_S8_H
#define PENSTOCK_TRANSPOSE_CONV_S8_H

#include "certified.h"
#include "view.h"

struct transpose_conv_s8 {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    int32_t in_zero, out_zero, least, most;
    const int32_t *multiplier;
    const int8_t *shift;
    const int32_t *forms; /* replaces both if not NULL; see certified.h */
    const int8_t *weights;
    const int32_t *bias;
};

/* Input index that meets the output at `reach` = output + pad - tap, or -1. */
static inline int32_t transpose_conv_s8_met(int32_t reach, int32_t stride, int32_t extent) {
    return reach >= 0 && reach % stride == 0 && reach / stride < extent ? reach / stride : -1;
}

/* Sum of products for output (row of image, column, channel). */
static inline int32_t transpose_conv_s8_sum(const struct transpose_conv_s8 *p,
                                            const penstock_source *x, int32_t first_row,
                                            int32_t row, int32_t column, int32_t channel) {
    int32_t sum = p->bias[channel];
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int32_t h = transpose_conv_s8_met(row + p->pad_top - k, p->stride_h, p->in_h);
        if (h < 0) {
            continue;
        }
        for (int32_t l = 0; l < p->kernel_w; l++) {
            const int32_t w = transpose_conv_s8_met(column + p->pad_left - l, p->stride_w, p->in_w);
            if (w < 0) {
                continue;
            }
            const int8_t *in = penstock_read_row(x, first_row + h) + w * p->in_c;
            const int8_t *tap =
                p->weights + ((channel * p->kernel_h + k) * p->kernel_w + l) * p->in_c;
            for (int32_t c = 0; c < p->in_c; c++) {
                sum += (in[c] - p->in_zero) * tap[c];
            }
        }
    }
    return sum;
}

PENSTOCK_KERNEL void transpose_conv_s8(const struct transpose_conv_s8 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            for (int32_t o = 0; o < p->out_c; o++) {
                int32_t sum =
                    transpose_conv_s8_sum(p, x, first_row, row % p->out_h, column, o);
                sum = p->forms ? penstock_certified(sum, p->forms + 6 * o)
                               : penstock_multiply(sum, p->multiplier[o], p->shift[o]) + p->out_zero;
                *out++ = (int8_t)penstock_clamp(sum, p->least, p->most);
            }
        }
    }
}

#endif
