/* depthwise_multiple_s8_dsp: depthwise convolution with a channel multiplier, for cores with the
 * DSP extension.
 *   x  (N, H,  W,  C)      int8     at least four channels
 *   y  (N, Ho, Wo, C * D)  int8     output channel o reads channel o / D
 * Weights and scales are stored for all outputs with o % D = 0, then for those with o % D = 1, and
 * so on: each set is a depthwise convolution.  Scratch: an output row of one of them, which is then
 * interleaved into y. Computes rows [lower, upper) of y, where a row index runs over N and Ho. */
#ifndef PENSTOCK_DEPTHWISE_MULTIPLE_S8_DSP_H
#define PENSTOCK_DEPTHWISE_MULTIPLE_S8_DSP_H

#include "depthwise_conv2d_s8_dsp.h"

struct depthwise_multiple_s8_dsp {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t least, most;
    int32_t inner_lower, inner_upper; /* columns with windows inside the input */
    int32_t shift, is_signed;
    int32_t multiplier_d, fours; /* windows per channel; groups of four channels */
    const int8_t *weights;
    const int32_t *scales;
    const int8_t *padding;
};

PENSTOCK_KERNEL void depthwise_multiple_s8_dsp(const struct depthwise_multiple_s8_dsp *p,
                                               const penstock_source *x, const penstock_sink *y,
                                               int32_t lower, int32_t upper, int8_t *scratch) {
    const penstock_sink line = {scratch, NULL, 0, INT32_MAX}; /* every row has this address */
    const int32_t weights = p->fours * 4 * p->kernel_h * p->kernel_w;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        for (int32_t d = 0; d < p->multiplier_d; d++) {
            const struct depthwise_conv2d_s8_dsp one = {
                p->in_h,       p->in_w,       p->in_c,        p->out_h,       p->out_w,
                p->in_c,       p->kernel_h,   p->kernel_w,    p->stride_h,    p->stride_w,
                p->dilation_h, p->dilation_w, p->pad_top,     p->pad_left,    p->least,
                p->most,       p->inner_lower, p->inner_upper, p->shift,      p->is_signed,
                p->weights + d * weights,     p->scales + d * p->fours * 13,  p->padding};
            depthwise_conv2d_s8_dsp(&one, x, &line, row, row + 1);
            const int8_t *found = scratch;
            for (int32_t k = d; k < p->out_w * p->out_c; k += p->multiplier_d) {
                out[k] = *found++;
            }
        }
    }
}

#endif
