/* depthwise_conv2d_s8_mve: depthwise convolution with 3 x 3 taps, for cores with MVE.
 *   x  (N, H,  W,  C)  int8     at least sixteen channels; or eight, and a stride of 1 along W
 *   y  (N, Ho, Wo, C)  int8
 * nine_taps_mve.h defines the layout of weights and scales, which contain the bias.
 * A block is sixteen channels; if the number of channels is not a multiple of sixteen, the last
 * block overlaps the preceding one.  With eight channels, a block is two pixels. Scratch: a block
 * of padding, and gathered blocks at the border. Computes rows [lower, upper) of y, where a row
 * index runs over N and Ho.  Padding counts as in_zero. */
#ifndef PENSTOCK_DEPTHWISE_CONV2D_S8_MVE_H
#define PENSTOCK_DEPTHWISE_CONV2D_S8_MVE_H

#include "nine_taps_mve.h"
#include "view.h"

struct depthwise_conv2d_s8_mve {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t inner_lower, inner_upper; /* columns with windows inside the input */
    int32_t together;                 /* pixels of a block: 1 or 2 */
    int32_t block_bytes;              /* of weights and scales */
    int32_t multiplier, left, is_signed;
    const int8_t *weights;
};

/* Gathers two pixels of eight channels, one of which is outside the tensor. */
static const int8_t *depthwise_conv2d_s8_mve_mixed(const struct depthwise_conv2d_s8_mve *p,
                                                   const int8_t *row, int32_t column, int8_t *to) {
    penstock_fill(to, p->in_zero, PENSTOCK_VECTOR);
    if (column < 0) {
        penstock_copy_vectors(to + p->in_c, row, p->in_c);
    } else {
        penstock_copy_vectors(to, row + column * p->in_c, p->in_c);
    }
    return to;
}

/* Finds the taps of an output column.  `scratch` begins with padding. */
static inline void depthwise_conv2d_s8_mve_taps(const struct depthwise_conv2d_s8_mve *p,
                                                const int8_t *const *rows, int32_t column,
                                                int8_t *scratch, const int8_t **tap) {
    int8_t *mixed = scratch + PENSTOCK_VECTOR;
    int32_t at = column * p->stride_w - p->pad_left;
    for (int32_t l = 0; l < 3; l++, at += p->dilation_w) {
        const int32_t last = at + p->together - 1;
        const int is_inside = at >= 0 && last < p->in_w;
        const int is_mixed = !is_inside && p->together > 1 && last >= 0 && at < p->in_w;
        for (int32_t k = 0; k < 3; k++) {
            const int8_t *found = rows[k] && is_inside ? rows[k] + at * p->in_c : scratch;
            if (is_mixed && rows[k]) {
                found = depthwise_conv2d_s8_mve_mixed(p, rows[k], at, mixed);
                mixed += PENSTOCK_VECTOR;
            }
            tap[3 * k + l] = found;
        }
    }
}

/* Computes the last sixteen channels if the channels are not a multiple of sixteen. */
static void depthwise_conv2d_s8_mve_tail(const struct depthwise_conv2d_s8_mve *p,
                                         struct penstock_mve_taps taps, int8_t *out) {
    const int32_t behind = p->in_c - PENSTOCK_VECTOR;
    for (int32_t k = 0; k < PENSTOCK_NINE; k++) {
        taps.tap[k] += behind;
    }
    taps.weights += taps.blocks * p->block_bytes;
    taps.blocks = 1;
    taps.advance = p->stride_w * p->in_c - PENSTOCK_VECTOR;
    taps.out_advance = behind;
    (p->is_signed ? penstock_mve_taps_signed : penstock_mve_taps_plain)(&taps, out + behind);
}

/* Computes a row of y from the rows of its window.  The members of `taps`, other than `tap` and
 * `pixels`, are the same for all columns. */
static void depthwise_conv2d_s8_mve_row(const struct depthwise_conv2d_s8_mve *p,
                                        struct penstock_mve_taps *taps, const int8_t *const *rows,
                                        int8_t *out, int8_t *scratch) {
    const int is_inner = rows[0] && rows[1] && rows[2];
    for (int32_t column = 0; column < p->out_w; column += taps->pixels * p->together) {
        int8_t pair[PENSTOCK_VECTOR];
        const int is_half = column + p->together > p->out_w; /* one pixel of two */
        int8_t *to = is_half ? pair : out + column * p->out_c;
        taps->pixels = 1;
        if (is_inner && column >= p->inner_lower && column + p->together <= p->inner_upper) {
            taps->pixels = (p->inner_upper - column) / p->together;
        }
        depthwise_conv2d_s8_mve_taps(p, rows, column, scratch, taps->tap);
        (p->is_signed ? penstock_mve_taps_signed : penstock_mve_taps_plain)(taps, to);
        if (taps->out_advance > 0) {
            depthwise_conv2d_s8_mve_tail(p, *taps, to);
        }
        if (is_half) {
            memcpy(out + column * p->out_c, pair, (size_t)p->out_c);
        }
    }
}

PENSTOCK_KERNEL void depthwise_conv2d_s8_mve(const struct depthwise_conv2d_s8_mve *p,
                                             const penstock_source *x, const penstock_sink *y,
                                             int32_t lower, int32_t upper, int8_t *scratch) {
    const int32_t bytes = p->together * p->in_c;
    const int32_t blocks = bytes / PENSTOCK_VECTOR;
    struct penstock_mve_taps taps = {
        .weights = p->weights,
        .blocks = blocks,
        .scaling = {p->multiplier, p->left},
        .advance = p->stride_w * bytes - blocks * PENSTOCK_VECTOR,
        .out_advance = bytes - blocks * PENSTOCK_VECTOR,
    };
    penstock_fill(scratch, p->in_zero, bytes);
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const int8_t *rows[3];
        for (int32_t k = 0; k < 3; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
        }
        int8_t *out = penstock_write_row(y, row);
        depthwise_conv2d_s8_mve_row(p, &taps, rows, out, scratch);
        penstock_limit(out, p->least, p->most, p->out_w * p->out_c);
    }
}

#endif
