/* conv2d_groups_s8_dsp: convolution in groups of channels with bias, requantisation and clamp, for
 * cores with the DSP extension, with inputs read in place.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8
 * Each group computes `group_out` output channels from `group_in` input channels, a multiple of 4;
 * the last group may overlap the preceding one and computes the same values for shared outputs.
 * tile.h defines the layout of weights and scales, which contain the bias; they are stored group by
 * group.  `padding` points to a padding pixel. Computes rows [lower, upper) of y, where a row index
 * runs over N and Ho. */
#ifndef PENSTOCK_CONV2D_GROUPS_S8_DSP_H
#define PENSTOCK_CONV2D_GROUPS_S8_DSP_H

#include "runs.h"
#include "view.h"

#define PENSTOCK_MOST_GROUP_TAPS 25

struct conv2d_groups_s8_dsp {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t least, most;
    int32_t groups, group_in, group_out;
    int32_t shift, is_signed;
    const int8_t *weights;
    const int32_t *scales;
    const int8_t *padding;
};

/* Writes the addresses of the taps of an output column to every second element of `run`; taps
 * outside the tensor point to the padding. */
static void conv2d_groups_s8_dsp_taps(const struct conv2d_groups_s8_dsp *p, const penstock_source *x,
                                      int32_t row, int32_t column, const int8_t **run) {
    const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
    const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
    const int32_t left = column * p->stride_w - p->pad_left;
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int32_t at = top + k * p->dilation_h;
        const int is_row = at >= 0 && at < p->in_h;
        const int8_t *in = is_row ? penstock_read_row(x, first_row + at) : NULL;
        for (int32_t l = 0; l < p->kernel_w; l++, run += 2) {
            const int32_t in_column = left + l * p->dilation_w;
            const int inside = is_row && in_column >= 0 && in_column < p->in_w;
            *run = inside ? in + in_column * p->in_c : p->padding;
        }
    }
}

/* Computes the outputs of one group for two pixels. */
static void conv2d_groups_s8_dsp_group(const struct conv2d_groups_s8_dsp *p,
                                       struct penstock_runs *tile, int8_t *out0, int8_t *out1) {
    const int32_t rest = p->group_out % 4;
    const int32_t whole = p->group_out - rest;
    const int32_t quad_bytes = 16 * tile->count * tile->fours;
    if (whole > 0) {
        tile->quads = whole / 4;
        (p->is_signed ? penstock_runs_signed : penstock_runs_plain)(tile, out0, out1);
        tile->weights += tile->quads * quad_bytes;
        tile->scales += tile->quads * 13;
    }
    if (rest > 0) {
        int8_t four[2][4];
        tile->quads = 1;
        (p->is_signed ? penstock_runs_signed : penstock_runs_plain)(tile, four[0], four[1]);
        memcpy(out1 + whole, four[1], (size_t)rest);
        memcpy(out0 + whole, four[0], (size_t)rest);
        tile->weights += quad_bytes;
        tile->scales += 13;
    }
}

PENSTOCK_KERNEL void conv2d_groups_s8_dsp(const struct conv2d_groups_s8_dsp *p,
                                          const penstock_source *x, const penstock_sink *y,
                                          int32_t lower, int32_t upper) {
    const int8_t *runs[2 * PENSTOCK_MOST_GROUP_TAPS];
    const int32_t taps = p->kernel_h * p->kernel_w;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column += 2, out += 2 * p->out_c) {
            const int32_t second = column + 1 < p->out_w ? 1 : 0; /* else both are the same */
            struct penstock_runs tile = {runs, p->weights, p->scales, taps, p->group_in / 4,
                                         1,    p->shift};
            conv2d_groups_s8_dsp_taps(p, x, row, column, runs);
            conv2d_groups_s8_dsp_taps(p, x, row, column + second, runs + 1);
            int32_t in_at = 0;
            int32_t out_at = 0;
            for (int32_t group = 1;; group++) {
                conv2d_groups_s8_dsp_group(p, &tile, out + out_at,
                                           out + second * p->out_c + out_at);
                if (group == p->groups) {
                    break;
                }
                const int32_t next = group * p->group_in;
                const int32_t last = p->in_c - p->group_in;
                const int32_t advance = (next < last ? next : last) - in_at;
                in_at += advance;
                out_at = group + 1 < p->groups ? group * p->group_out : p->out_c - p->group_out;
                for (int32_t k = 0; k < 2 * taps; k++) {
                    runs[k] += advance;
                }
            }
        }
        if (p->least > -128 || p->most < 127) {
            penstock_clamp_words(penstock_write_row(y, row), p->out_w * p->out_c,
                                 penstock_all_bytes(p->least), penstock_all_bytes(p->most));
        }
    }
}

#endif
