/* depthwise_conv2d_s8_mve: a window of nine taps for every channel, on cores with MVE.
 *   x  (N, H,  W,  C)  int8     at least sixteen channels; or eight, and a stride of 1 along W
 *   y  (N, Ho, Wo, C)  int8
 * Weights and scales lie as nine_taps_mve.h says, the bias is in them.
 * A block is sixteen channels; where they fill no blocks, the last one overlaps that before.  Where
 * there are eight, a block is two pixels.
 * Scratch: what padding and taps at the border are read from.
 * Computes rows [lower, upper) of y, counted through N and Ho.  Padding counts as in_zero. */
#ifndef PENSTOCK_DEPTHWISE_CONV2D_S8_MVE_H
#define PENSTOCK_DEPTHWISE_CONV2D_S8_MVE_H

#include "nine_taps_mve.h"
#include "view.h"

struct depthwise_conv2d_s8_mve {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t inner_lower, inner_upper; /* output columns whose windows lie inside */
    int32_t together;                 /* pixels of a block: 1 or 2 */
    int32_t block_bytes;              /* of weights and scales */
    int32_t multiplier, left, is_signed;
    const int8_t *weights;
};

/* Two pixels of eight channels, of which one lies outside. */
static const int8_t *depthwise_conv2d_s8_mve_mixed(const struct depthwise_conv2d_s8_mve *p,
                                                   const int8_t *row, int32_t column, int8_t *to) {
    penstock_fill(to, p->in_zero, PENSTOCK_VECTOR);
    if (column < 0) {
        penstock_copy(to + p->in_c, row, p->in_c);
    } else {
        penstock_copy(to, row + column * p->in_c, p->in_c);
    }
    return to;
}

/* The taps of an output column.  `scratch` begins with padding. */
static void depthwise_conv2d_s8_mve_taps(const struct depthwise_conv2d_s8_mve *p,
                                         const int8_t *const *rows, int32_t column,
                                         int8_t *scratch, const int8_t **tap) {
    const int32_t left = column * p->stride_w - p->pad_left;
    int8_t *mixed = scratch + PENSTOCK_VECTOR;
    for (int32_t k = 0; k < PENSTOCK_NINE; k++) {
        const int8_t *row = rows[k / p->kernel_w];
        const int32_t at = left + k % p->kernel_w * p->dilation_w;
        const int32_t last = at + p->together - 1;
        tap[k] = scratch;
        if (row && at >= 0 && last < p->in_w) {
            tap[k] = row + at * p->in_c;
        } else if (row && last >= 0 && at < p->in_w && p->together > 1) {
            tap[k] = depthwise_conv2d_s8_mve_mixed(p, row, at, mixed);
            mixed += PENSTOCK_VECTOR;
        }
    }
}

/* The outputs of as many blocks of pixels, whose taps all move along. */
static void depthwise_conv2d_s8_mve_run(const struct depthwise_conv2d_s8_mve *p,
                                        struct penstock_mve_taps *taps, int32_t pixels,
                                        int8_t *out) {
    const int32_t bytes = p->together * p->in_c;
    const int32_t behind = bytes - PENSTOCK_VECTOR;
    taps->weights = p->weights;
    taps->blocks = bytes / PENSTOCK_VECTOR;
    taps->scaling.multiplier = p->multiplier;
    taps->scaling.left = p->left;
    taps->advance = p->stride_w * bytes - taps->blocks * PENSTOCK_VECTOR;
    taps->out_advance = bytes - taps->blocks * PENSTOCK_VECTOR;
    taps->pixels = pixels;
    (p->is_signed ? penstock_mve_taps_signed : penstock_mve_taps_plain)(taps, out);
    if (taps->out_advance > 0) {
        for (int32_t k = 0; k < PENSTOCK_NINE; k++) {
            taps->tap[k] += behind;
        }
        taps->weights += taps->blocks * p->block_bytes;
        taps->blocks = 1;
        taps->advance = p->stride_w * bytes - PENSTOCK_VECTOR;
        taps->out_advance = behind;
        (p->is_signed ? penstock_mve_taps_signed : penstock_mve_taps_plain)(taps, out + behind);
    }
}

/* A row of y, from the rows of its window. */
static void depthwise_conv2d_s8_mve_row(const struct depthwise_conv2d_s8_mve *p,
                                        const int8_t *const *rows, int is_inner, int8_t *out,
                                        int8_t *scratch) {
    struct penstock_mve_taps taps;
    int8_t pair[PENSTOCK_VECTOR];
    for (int32_t column = 0; column < p->out_w;) {
        int32_t pixels = 1;
        if (is_inner && column >= p->inner_lower && column + p->together <= p->inner_upper) {
            pixels = (p->inner_upper - column) / p->together;
        }
        depthwise_conv2d_s8_mve_taps(p, rows, column, scratch, taps.tap);
        if (column + p->together > p->out_w) { /* one pixel of two */
            depthwise_conv2d_s8_mve_run(p, &taps, 1, pair);
            memcpy(out + column * p->out_c, pair, (size_t)p->out_c);
        } else {
            depthwise_conv2d_s8_mve_run(p, &taps, pixels, out + column * p->out_c);
        }
        column += pixels * p->together;
    }
}

static void depthwise_conv2d_s8_mve(const struct depthwise_conv2d_s8_mve *p,
                                    const penstock_source *x, const penstock_sink *y,
                                    int32_t lower, int32_t upper, int8_t *scratch) {
    const int32_t pixel = p->together * p->in_c;
    penstock_fill(scratch, p->in_zero, pixel);
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* of this image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const int8_t *rows[PENSTOCK_NINE];
        int is_inner = 1;
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
            is_inner = is_inner && inside;
        }
        int8_t *out = penstock_write_row(y, row);
        depthwise_conv2d_s8_mve_row(p, rows, is_inner, out, scratch);
        penstock_limit(out, p->least, p->most, p->out_w * p->out_c);
    }
}

#endif
