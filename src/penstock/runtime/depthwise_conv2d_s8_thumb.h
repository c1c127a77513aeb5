/* depthwise_conv2d_s8_thumb: depthwise convolution, for cores without long multiplication.
 *   x  (N, H,  W,  C)  int8
 *   y  (N, Ho, Wo, C)  int8
 * thumb_taps.h defines the layout of weights, which contain the bias.  Scratch: a pixel of padding,
 * which counts as in_zero.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho. */
#ifndef PENSTOCK_DEPTHWISE_CONV2D_S8_THUMB_H
#define PENSTOCK_DEPTHWISE_CONV2D_S8_THUMB_H

#include "thumb_taps.h"
#include "view.h"

struct depthwise_conv2d_s8_thumb {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero;
    int32_t inner_lower, inner_upper; /* columns with windows inside the input */
    int32_t is_signed;
    const int8_t *weights;
};

/* Writes the taps of an output column to every second element of `tap`; taps outside the tensor
 * point to the padding. */
static void depthwise_conv2d_s8_thumb_taps(const struct depthwise_conv2d_s8_thumb *p,
                                           const int8_t *const *rows, int32_t left,
                                           const int8_t *padding, const int8_t **tap) {
    for (int32_t k = 0; k < p->kernel_h; k++) {
        int32_t column = left;
        for (int32_t l = 0; l < p->kernel_w; l++, column += p->dilation_w, tap += 2) {
            const int there = rows[k] && column >= 0 && column < p->in_w;
            *tap = there ? rows[k] + column * p->in_c : padding;
        }
    }
}

/* Computes pairs of output pixels; `taps` are the taps of the first pair. */
static void depthwise_conv2d_s8_thumb_pairs(const struct depthwise_conv2d_s8_thumb *p,
                                            const int8_t *const *tap, int32_t pairs, int8_t *out0,
                                            int8_t *out1) {
    struct penstock_thumb_taps taps = {tap, p->weights, 0, p->in_c, p->kernel_h * p->kernel_w,
                                       p->is_signed};
    for (; pairs > 0; pairs--, out0 += 2 * p->out_c, out1 += 2 * p->out_c) {
        penstock_thumb_run_taps(&taps, out0, out1);
        taps.first += 2 * p->stride_w * p->in_c;
        taps.end += 2 * p->stride_w * p->in_c;
    }
}

/* Derives the taps of second pixels from those of first ones. */
static void depthwise_conv2d_s8_thumb_second(const struct depthwise_conv2d_s8_thumb *p,
                                             const int8_t **tap, int32_t advance) {
    for (int32_t k = 0; k < p->kernel_h * p->kernel_w; k++, tap += 2) {
        tap[1] = tap[0] + advance;
    }
}

PENSTOCK_KERNEL void depthwise_conv2d_s8_thumb(const struct depthwise_conv2d_s8_thumb *p,
                                               const penstock_source *x, const penstock_sink *y,
                                               int32_t lower, int32_t upper, int8_t *scratch) {
    const int8_t *rows[PENSTOCK_THUMB_MOST_TAPS];
    const int8_t *tap[2 * PENSTOCK_THUMB_MOST_TAPS];
    int8_t *waiting = NULL; /* output of a first pixel without a second one yet */
    memset(scratch, p->in_zero, (size_t)p->in_c);
    for (int32_t row = lower; row < upper; row++) {
        const int32_t image = row < p->out_h ? 0 : row / p->out_h; /* a division is a call */
        const int32_t first_row = image * p->in_h;
        const int32_t top = (row - image * p->out_h) * p->stride_h - p->pad_top;
        int is_inner = 1;
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
            is_inner &= inside;
        }
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w;) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const int together = is_inner && column >= p->inner_lower;
            const int32_t pairs = together ? (p->inner_upper - column) / 2 : 0;
            depthwise_conv2d_s8_thumb_taps(p, rows, left, scratch, waiting ? tap + 1 : tap);
            if (waiting) {
                depthwise_conv2d_s8_thumb_pairs(p, tap, 1, waiting, out);
                waiting = NULL;
            } else if (pairs > 0) {
                depthwise_conv2d_s8_thumb_second(p, tap, p->stride_w * p->in_c);
                depthwise_conv2d_s8_thumb_pairs(p, tap, pairs, out, out + p->out_c);
                column += 2 * pairs - 1;
                out += (2 * pairs - 1) * p->out_c;
            } else {
                waiting = out;
            }
            column++;
            out += p->out_c;
        }
    }
    if (waiting) {
        depthwise_conv2d_s8_thumb_second(p, tap, 0);
        depthwise_conv2d_s8_thumb_pairs(p, tap, 1, waiting, waiting);
    }
}

#endif
