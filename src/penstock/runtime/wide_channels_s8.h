/* wide_channels_s8: the channels of a convolution whose weights exceed int8, as those of uint8 less
 * their zero point.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8     the other channels are left as they are
 * `wide_weights` has the windows of `wide` channels, (wide, K, L, depth); `wide_places` has, for
 * each of them, its index in y and the first channel of x that it reads.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.  Padding counts as
 * in_zero.
 * Source: TensorFlow Lite, reference/conv.h, reference/depthwiseconv_uint8.h. */
#ifndef PENSTOCK_WIDE_CHANNELS_S8_H
#define PENSTOCK_WIDE_CHANNELS_S8_H

#include "certified.h"
#include "window.h"

struct wide_channels_s8 {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t wide, depth;
    const int16_t *wide_weights;
    const int32_t *wide_bias;
    const int32_t *wide_forms; /* see certified.h */
    const int32_t *wide_places;
};

/* Taps of a window row as `runs` of elements that are `apart` in x. */
typedef struct {
    int32_t runs, elements, apart, step; /* `step`: from the begin of one run to the next one's */
} wide_channels_s8_taps;

static inline wide_channels_s8_taps wide_channels_s8_runs(const struct wide_channels_s8 *p,
                                                          int32_t taps) {
    const int32_t step = p->dilation_w * p->in_c;
    if (p->depth == 1) {
        const wide_channels_s8_taps one = {1, taps, step, 0};
        return one;
    }
    if (step == p->depth) {
        const wide_channels_s8_taps one = {1, taps * p->depth, 1, 0};
        return one;
    }
    const wide_channels_s8_taps several = {taps, p->depth, 1, step};
    return several;
}

/* A pixel of y: `in_rows` are the rows of its window, which begins `before` elements into them. */
static void wide_channels_s8_pixel(const struct wide_channels_s8 *p, const int8_t *const *in_rows,
                                   penstock_span rows, penstock_span taps, int32_t before,
                                   int8_t *out) {
    const wide_channels_s8_taps row = wide_channels_s8_runs(p, taps.upper - taps.lower);
    const int32_t zero = p->in_zero;
    for (int32_t channel = 0; channel < p->wide; channel++) {
        const int32_t *place = p->wide_places + 2 * channel;
        int32_t sum = p->wide_bias[channel];
        for (int32_t k = rows.lower; k < rows.upper; k++) {
            const int8_t *run = in_rows[k] + before + place[1];
            const int16_t *w = p->wide_weights +
                               ((channel * p->kernel_h + k) * p->kernel_w + taps.lower) * p->depth;
            for (int32_t l = 0; l < row.runs; l++, run += row.step) {
                const int8_t *in = run;
                for (int32_t c = 0; c < row.elements; c++, in += row.apart) {
                    sum += (*in - zero) * *w++;
                }
            }
        }
        sum = penstock_certified(sum, p->wide_forms + 6 * channel);
        out[place[0]] = (int8_t)penstock_clamp(sum, p->least, p->most);
    }
}

PENSTOCK_KERNEL void wide_channels_s8(const struct wide_channels_s8 *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const penstock_span rows = penstock_taps_inside(top, p->kernel_h, p->dilation_h, p->in_h);
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        penstock_window_rows(x, first_row + top, p->dilation_h, rows, in_rows);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++, out += p->out_c) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const penstock_span taps =
                penstock_taps_inside(left, p->kernel_w, p->dilation_w, p->in_w);
            const int32_t before = (left + taps.lower * p->dilation_w) * p->in_c;
            wide_channels_s8_pixel(p, in_rows, rows, taps, before, out);
        }
    }
}

#endif
