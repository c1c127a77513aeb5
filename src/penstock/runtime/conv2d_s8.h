/* conv2d_s8: convolution with bias, requantisation and clamp.
 *   x  (N, H,  W,  C)      int8     w  (O, K, L, C / G)  int8
 *   y  (N, Ho, Wo, O)      int8     b  (O)               int32
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.  Padding counts as
 * in_zero.
 * Source: TensorFlow Lite, reference/integer_ops/conv.h. */
#ifndef PENSTOCK_CONV2D_S8_H
#define PENSTOCK_CONV2D_S8_H

#include "certified.h"
#include "window.h"

struct conv2d_s8 {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t groups, in_zero, out_zero, least, most;
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multiplier; /* one per output channel, as shift */
    const int8_t *shift;
    const int32_t *forms; /* replaces both if not NULL; see certified.h */
};

/* Sum of products of one window row: `count` taps of `depth` elements, `step` elements apart. */
static inline int32_t conv2d_s8_taps(const int8_t *x, const int8_t *w, int32_t count, int32_t depth,
                                     int32_t step, int32_t zero, int32_t sum) {
    if (step == depth) { /* one run of elements */
        depth *= count;
        count = 1;
    }
    for (int32_t l = 0; l < count; l++, x += step, w += depth) {
        for (int32_t c = 0; c < depth; c++) {
            sum += (x[c] - zero) * w[c];
        }
    }
    return sum;
}

/* A row of y, from the rows of its window. */
static void conv2d_s8_row(const struct conv2d_s8 *p, const int8_t *const *in_rows,
                          penstock_span rows, int8_t *out) {
    const int32_t depth = p->in_c / p->groups;
    const int32_t group_outputs = p->out_c / p->groups;
    for (int32_t column = 0; column < p->out_w; column++) {
        const int32_t left = column * p->stride_w - p->pad_left;
        const penstock_span taps =
            penstock_taps_inside(left, p->kernel_w, p->dilation_w, p->in_w);
        const int32_t before = (left + taps.lower * p->dilation_w) * p->in_c;
        for (int32_t o = 0; o < p->out_c; o++) {
            const int32_t group = o / group_outputs * depth;
            int32_t sum = p->bias[o];
            for (int32_t k = rows.lower; k < rows.upper; k++) {
                const int8_t *w =
                    p->weights + ((o * p->kernel_h + k) * p->kernel_w + taps.lower) * depth;
                sum = conv2d_s8_taps(in_rows[k] + before + group, w, taps.upper - taps.lower,
                                     depth, p->dilation_w * p->in_c, p->in_zero, sum);
            }
            sum = p->forms ? penstock_certified(sum, p->forms + 6 * o)
                           : penstock_multiply(sum, p->multiplier[o], p->shift[o]) + p->out_zero;
            *out++ = (int8_t)penstock_clamp(sum, p->least, p->most);
        }
    }
}

PENSTOCK_KERNEL void conv2d_s8(const struct conv2d_s8 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const penstock_span rows = penstock_taps_inside(top, p->kernel_h, p->dilation_h, p->in_h);
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        penstock_window_rows(x, first_row + top, p->dilation_h, rows, in_rows);
        conv2d_s8_row(p, in_rows, rows, penstock_write_row(y, row));
    }
}

#endif
