/* transpose_conv_f32: every input element adds a window of weights to the output, of floats.
 *   x  (N, in_h,  in_w,  in_c)                           float
 *   w  (1, ceil(out_c / 4), kernel_h, kernel_w, in_c, 4) float   or int8; four outputs together
 *   b  (out_c)                                           float
 *   y  (N, out_h, out_w, out_c)                          float
 * Gathers: an output row uses tap k if (row + pad_top - k) is a multiple of the stride.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/transpose_conv.h. */
#ifndef PENSTOCK_TRANSPOSE_CONV_F32_H
#define PENSTOCK_TRANSPOSE_CONV_F32_H

#include "products_f32.h"
#include "view.h"

struct transpose_conv_f32 {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    int32_t weight_bytes;
    const void *weights;
    const float *bias;
    const float *bounds; /* least and largest result */
};

/* Input index that meets the output at `reach` = output + pad - tap, or -1. */
static inline int32_t transpose_conv_f32_met(int32_t reach, int32_t stride, int32_t extent) {
    return reach >= 0 && reach % stride == 0 && reach / stride < extent ? reach / stride : -1;
}

/* Adds all products of four outputs, in the order of the input elements, which is that of the taps
 * from the last to the first. */
static void transpose_conv_f32_sums(const struct transpose_conv_f32 *p, const penstock_source *x,
                                    int32_t row, int32_t column, const int8_t *weights,
                                    float *sums) {
    const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
    for (int32_t k = p->kernel_h; k-- > 0;) {
        const int32_t h =
            transpose_conv_f32_met(row % p->out_h + p->pad_top - k, p->stride_h, p->in_h);
        if (h < 0) {
            continue;
        }
        const int8_t *in = penstock_read_row(x, first_row + h);
        for (int32_t l = p->kernel_w; l-- > 0;) {
            const int32_t w =
                transpose_conv_f32_met(column + p->pad_left - l, p->stride_w, p->in_w);
            if (w >= 0) {
                const int8_t *tap = weights + (k * p->kernel_w + l) * p->in_c * 4 * p->weight_bytes;
                penstock_add_products_f32(in + w * p->in_c * 4, tap, p->weight_bytes, p->in_c, sums);
            }
        }
    }
}

PENSTOCK_KERNEL void transpose_conv_f32(const struct transpose_conv_f32 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    const int32_t taps_bytes = p->kernel_h * p->kernel_w * p->in_c * 4 * p->weight_bytes;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++, out += p->out_c * 4) {
            const int8_t *w = p->weights;
            for (int32_t o = 0; o < p->out_c; o += 4, w += taps_bytes) {
                float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                transpose_conv_f32_sums(p, x, row, column, w, sums);
                penstock_put_sums(out, o, p->out_c, sums, p->bias, p->bounds);
            }
        }
    }
}

#endif
