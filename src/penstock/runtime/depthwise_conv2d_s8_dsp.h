/* depthwise_conv2d_s8_dsp: depthwise convolution, for cores with the DSP extension.
 *   x  (N, H,  W,  C)  int8     at least four channels
 *   y  (N, Ho, Wo, C)  int8
 * taps.h defines the layout of weights and scales, which contain the bias.  If the number of
 * channels is not a multiple of four, the last group of four overlaps the preceding one.  `padding`
 * points to a padding pixel. Computes rows [lower, upper) of y, where a row index runs over N and
 * Ho. */
#ifndef PENSTOCK_DEPTHWISE_CONV2D_S8_DSP_H
#define PENSTOCK_DEPTHWISE_CONV2D_S8_DSP_H

#include "taps.h"
#include "view.h"

struct depthwise_conv2d_s8_dsp {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t least, most;
    int32_t inner_lower, inner_upper; /* columns with windows inside the input */
    int32_t shift, is_signed;
    const int8_t *weights;
    const int32_t *scales;
    const int8_t *padding;
};

/* Computes `pixels` output pixels; all taps advance by the same distance from pixel to pixel. */
static void depthwise_conv2d_s8_dsp_run(const struct depthwise_conv2d_s8_dsp *p,
                                        const int8_t **tap, int32_t advance, int32_t pixels,
                                        int8_t *out) {
    const int32_t count = p->kernel_h * p->kernel_w;
    const int32_t fours = p->in_c / 4 * 4;
    struct penstock_taps taps = {tap,     p->weights, p->scales, fours, p->shift,
                                 advance, p->out_c,   pixels,    count};
    penstock_run_taps(&taps, p->is_signed, out);
    if (fours < p->in_c) {
        for (int32_t k = 0; k < count; k++) {
            tap[k] += p->in_c - 4;
        }
        taps.weights += fours * count;
        taps.scales += fours / 4 * 13;
        taps.channels = 4;
        penstock_run_taps(&taps, p->is_signed, out + p->in_c - 4);
    }
}

/* Finds the taps of an output column; taps outside the tensor point to the padding. */
static void depthwise_conv2d_s8_dsp_taps(const struct depthwise_conv2d_s8_dsp *p,
                                         const penstock_source *x, int32_t first_row, int32_t top,
                                         int32_t column, const int8_t **tap) {
    const int32_t left = column * p->stride_w - p->pad_left;
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int32_t at = top + k * p->dilation_h;
        const int inside = at >= 0 && at < p->in_h;
        const int8_t *row = inside ? penstock_read_row(x, first_row + at) : NULL;
        for (int32_t l = 0; l < p->kernel_w; l++) {
            const int32_t in_column = left + l * p->dilation_w;
            const int there = inside && in_column >= 0 && in_column < p->in_w;
            *tap++ = there ? row + in_column * p->in_c : p->padding;
        }
    }
}

PENSTOCK_KERNEL void depthwise_conv2d_s8_dsp(const struct depthwise_conv2d_s8_dsp *p,
                                             const penstock_source *x, const penstock_sink *y,
                                             int32_t lower, int32_t upper) {
    const int8_t *tap[PENSTOCK_MOST_TAPS];
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const int is_inner = top >= 0 && top + (p->kernel_h - 1) * p->dilation_h < p->in_h;
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w;) {
            const int together =
                is_inner && column >= p->inner_lower && column < p->inner_upper;
            const int32_t pixels = together ? p->inner_upper - column : 1;
            depthwise_conv2d_s8_dsp_taps(p, x, first_row, top, column, tap);
            depthwise_conv2d_s8_dsp_run(p, tap, p->stride_w * p->in_c, pixels,
                                        out + column * p->out_c);
            column += pixels;
        }
        if (p->least > -128 || p->most < 127) {
            for (int32_t k = 0; k < p->out_w * p->out_c; k++) {
                const int32_t at_least = out[k] < p->least ? p->least : out[k];
                out[k] = (int8_t)(at_least > p->most ? p->most : at_least);
            }
        }
    }
}

#endif
