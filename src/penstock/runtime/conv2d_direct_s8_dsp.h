/* conv2d_direct_s8_dsp: convolution with bias, requantisation and clamp, for cores with the DSP
 * extension, with inputs read in place.
 *   x  (N, H,  W,  C)   int8     C a multiple of 4
 *   y  (N, Ho, Wo, O)   int8
 * tile.h defines the layout of weights and scales, which contain the bias.  The inputs of a window
 * are processed in groups of four: first the even bytes, then the odd ones.  `padding` points to a
 * padding pixel. Computes rows [lower, upper) of y, where a row index runs over N and Ho. */
#ifndef PENSTOCK_CONV2D_DIRECT_S8_DSP_H
#define PENSTOCK_CONV2D_DIRECT_S8_DSP_H

#include "runs.h"
#include "window.h"

#define PENSTOCK_MOST_RUNS 25

struct conv2d_direct_s8_dsp {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t least, most;
    int32_t inner_lower, inner_upper; /* columns whose windows are inside the input */
    int32_t quads, quads_rest;        /* of output channels */
    int32_t shift, is_signed;
    const int8_t *weights;
    const int32_t *scales;
    const int8_t *padding;
};

/* Writes the addresses of the runs of a pixel's window to every second element of `run`.  The first
 * tap is at column `left`.  A run is a window row if the window `is_inner`, else a tap.  in_rows[k]
 * is NULL for rows outside the input. */
static void conv2d_direct_s8_dsp_runs(const struct conv2d_direct_s8_dsp *p,
                                      const int8_t *const *in_rows, int32_t left, int is_inner,
                                      const int8_t **run) {
    const int32_t columns = is_inner ? 1 : p->kernel_w;
    for (int32_t k = 0; k < p->kernel_h; k++) {
        for (int32_t l = 0; l < columns; l++, run += 2) {
            const int32_t column = left + l * p->dilation_w;
            const int inside = in_rows[k] && column >= 0 && column < p->in_w;
            *run = inside ? in_rows[k] + column * p->in_c : p->padding;
        }
    }
}

/* Four output channels of pixel 0, and of pixel 1 if `out1` is not NULL. */
static inline void conv2d_direct_s8_dsp_quads(const struct conv2d_direct_s8_dsp *p,
                                              const struct penstock_runs *tile, int8_t *out0,
                                              int8_t *out1) {
    if (out1) {
        (p->is_signed ? penstock_runs_signed : penstock_runs_plain)(tile, out0, out1);
    } else {
        (p->is_signed ? penstock_lone_signed : penstock_lone_plain)(tile, out0);
    }
}

/* The outputs of one pixel, or of two if `out1` is not NULL. */
static void conv2d_direct_s8_dsp_outputs(const struct conv2d_direct_s8_dsp *p,
                                         const int8_t *const *runs, int is_inner, int8_t *out0,
                                         int8_t *out1) {
    const int32_t taps = p->kernel_h * p->kernel_w;
    const int32_t quads = p->quads;
    const int32_t count = is_inner ? p->kernel_h : taps;
    const int32_t fours = (is_inner ? p->kernel_w : 1) * p->in_c / 4;
    struct penstock_runs tile = {runs, p->weights, p->scales, count, fours, quads, p->shift};
    if (quads > 0) {
        conv2d_direct_s8_dsp_quads(p, &tile, out0, out1);
    }
    if (p->quads_rest > 0) {
        int8_t four[2][4];
        tile.weights += 4 * quads * taps * p->in_c;
        tile.scales += 13 * quads;
        tile.quads = 1;
        conv2d_direct_s8_dsp_quads(p, &tile, four[0], out1 ? four[1] : NULL);
        memcpy(out0 + 4 * quads, four[0], (size_t)p->quads_rest);
        if (out1) {
            memcpy(out1 + 4 * quads, four[1], (size_t)p->quads_rest);
        }
    }
    if (p->least > -128 || p->most < 127) {
        penstock_clamp_bytes(out0, out1 ? 2 * p->out_c : p->out_c, p->least, p->most);
    }
}

PENSTOCK_KERNEL void conv2d_direct_s8_dsp(const struct conv2d_direct_s8_dsp *p,
                                          const penstock_source *x, const penstock_sink *y,
                                          int32_t lower, int32_t upper) {
    const int8_t *runs[2 * PENSTOCK_MOST_RUNS];
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        int rows_inside = 1;
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            in_rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
            rows_inside &= inside;
        }
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column += 2, out += 2 * p->out_c) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const int32_t last = column + 1 < p->out_w ? column + 1 : column;
            const int is_inner = rows_inside && column >= p->inner_lower && last < p->inner_upper;
            conv2d_direct_s8_dsp_runs(p, in_rows, left, is_inner, runs);
            if (last > column) {
                conv2d_direct_s8_dsp_runs(p, in_rows, left + p->stride_w, is_inner, runs + 1);
            }
            conv2d_direct_s8_dsp_outputs(p, runs, is_inner, out, last > column ? out + p->out_c : NULL);
        }
    }
}

#endif
