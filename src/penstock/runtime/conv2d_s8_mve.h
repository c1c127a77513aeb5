/* conv2d_s8_mve: convolution with bias, requantisation and clamp, for cores with MVE.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8
 * tile_mve.h defines the layout of weights and scales, which contain the bias.  A window is read in
 * place if it is one run of bytes and the bytes read beyond its end belong to the same row.  Other
 * windows are gathered in scratch, which holds two of them.  With `strips`, scratch holds the
 * overlapping windows of a whole row, column by column, each from its first row to its last, in the
 * order of the weights.  Weights beyond a window's end are zero.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.  Padding counts as
 * in_zero. */
#ifndef PENSTOCK_CONV2D_S8_MVE_H
#define PENSTOCK_CONV2D_S8_MVE_H

#include "tile_mve.h"
#include "window.h"

struct conv2d_s8_mve {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t inner_lower, inner_upper; /* columns with windows inside the input */
    int32_t there_upper;              /* inner columns below this one are read in place */
    int32_t strips;                   /* columns of all windows of a row, or 0 */
    int32_t steps;                    /* vectors of a window */
    int32_t quads, quads_rest;        /* of output channels */
    int32_t quad_words;               /* of scales */
    int32_t multiplier, left, is_signed;
    const int8_t *weights;
    const int32_t *scales;
};

/* A window, and the address of its outputs. */
struct conv2d_s8_mve_pixel {
    const int8_t *x;
    int8_t *out;
};

/* Gathers a window at `to`; its first tap is at column `left`, and all taps are inside the
 * tensor. */
static inline void conv2d_s8_mve_inner(const struct conv2d_s8_mve *p, const int8_t *const *in_rows,
                                       int32_t left, int8_t *to) {
    const int32_t bytes = p->kernel_w * p->in_c;
    const int32_t before = left * p->in_c;
    const int32_t zero = p->in_zero;
    const int8_t *const *end = in_rows + p->kernel_h;
    for (; in_rows < end; in_rows++, to += bytes) {
        if (*in_rows) {
            penstock_copy_vectors(to, *in_rows + before, bytes);
        } else {
            penstock_fill(to, zero, bytes);
        }
    }
}

/* As above, for a window that exceeds the tensor or is dilated. */
static void conv2d_s8_mve_border(const struct conv2d_s8_mve *p, const int8_t *const *in_rows,
                                 int32_t left, int8_t *to) {
    const int32_t channels = p->in_c;
    const int32_t bytes = p->kernel_w * channels;
    const penstock_span taps = penstock_taps_inside(left, p->kernel_w, p->dilation_w, p->in_w);
    const int32_t is_run = p->dilation_w == 1;
    const int32_t runs = is_run && taps.lower < taps.upper ? 1 : taps.upper - taps.lower;
    const int32_t run = is_run ? (taps.upper - taps.lower) * channels : channels;
    const int32_t before = (left + taps.lower * p->dilation_w) * channels;
    const int32_t step = p->dilation_w * channels;
    const int8_t *const *end = in_rows + p->kernel_h;
    for (; in_rows < end; in_rows++, to += bytes) {
        penstock_fill(to, p->in_zero, bytes);
        for (int32_t k = 0; *in_rows && k < runs; k++) {
            penstock_copy_vectors(to + (taps.lower + k) * channels, *in_rows + before + k * step, run);
        }
    }
}

/* Initialises the members of a tile that are the same for all pixels. */
static struct penstock_mve_tile conv2d_s8_mve_tile(const struct conv2d_s8_mve *p) {
    const struct penstock_mve_tile tile = {
        .more_steps = p->steps - 1,
        .scaling = {p->multiplier, p->left},
        .scales_end = p->scales + p->quads * p->quad_words,
        .weights = p->weights,
        .scales = p->scales,
        .x_advance = 2 * p->stride_w * p->kernel_h * p->in_c,
        .out_advance = 2 * p->out_c - 4 * p->quads,
        .quads = p->quads,
    };
    return tile;
}

/* Computes the remaining one to three channels of two pixels. */
static void conv2d_s8_mve_rest(const struct conv2d_s8_mve *p, struct penstock_mve_tile tile,
                               struct conv2d_s8_mve_pixel a, struct conv2d_s8_mve_pixel b) {
    int8_t four[2][4];
    tile.x0 = a.x;
    tile.x1 = b.x;
    tile.out0 = four[0];
    tile.out1 = four[1];
    tile.weights += 4 * PENSTOCK_VECTOR * p->steps * p->quads;
    tile.scales = tile.scales_end;
    tile.scales_end += p->quad_words;
    tile.pairs = 1;
    tile.quads = 1;
    (p->is_signed ? penstock_mve_tile_signed : penstock_mve_tile_plain)(&tile);
    memcpy(b.out + 4 * p->quads, four[1], (size_t)p->quads_rest);
    memcpy(a.out + 4 * p->quads, four[0], (size_t)p->quads_rest);
}

/* Computes the outputs of two pixels and of the pairs of pixels after them. */
static void conv2d_s8_mve_outputs(const struct conv2d_s8_mve *p, struct penstock_mve_tile *tile,
                                  struct conv2d_s8_mve_pixel a, struct conv2d_s8_mve_pixel b,
                                  int32_t pairs) {
    tile->x0 = a.x;
    tile->x1 = b.x;
    tile->out0 = a.out;
    tile->out1 = b.out;
    tile->pairs = pairs;
    if (p->quads > 0) {
        (p->is_signed ? penstock_mve_tile_signed : penstock_mve_tile_plain)(tile);
    }
    for (; p->quads_rest > 0 && pairs > 0; pairs--) {
        conv2d_s8_mve_rest(p, *tile, a, b);
        a.x += tile->x_advance;
        b.x += tile->x_advance;
        a.out += 2 * p->out_c;
        b.out += 2 * p->out_c;
    }
}

/* Computes a row of y in pairs of pixels.  Returns the window of a pixel without a partner, if
 * any. */
static struct conv2d_s8_mve_pixel conv2d_s8_mve_row(const struct conv2d_s8_mve *p,
                                                    struct penstock_mve_tile *tile,
                                                    const int8_t *const *in_rows, int8_t *out,
                                                    struct conv2d_s8_mve_pixel waiting,
                                                    int8_t *scratch) {
    int8_t *other = scratch + p->steps * PENSTOCK_VECTOR;
    const int32_t there = in_rows[0] ? p->there_upper : 0;
    for (int32_t column = 0; column < p->out_w;) {
        const int32_t left = column * p->stride_w - p->pad_left;
        const int is_inner = column >= p->inner_lower && column < p->inner_upper;
        struct conv2d_s8_mve_pixel pixel = {scratch, out + column * p->out_c};
        if (is_inner && column < there) {
            pixel.x = in_rows[0] + left * p->in_c;
            if (!waiting.x && column + 1 < there) {
                const int32_t pairs = (there - column) / 2;
                const struct conv2d_s8_mve_pixel next = {pixel.x + p->stride_w * p->in_c,
                                                         pixel.out + p->out_c};
                conv2d_s8_mve_outputs(p, tile, pixel, next, pairs);
                column += 2 * pairs;
                continue;
            }
        } else {
            int8_t *window = waiting.x == scratch ? other : scratch;
            if (is_inner) {
                conv2d_s8_mve_inner(p, in_rows, left, window);
            } else {
                conv2d_s8_mve_border(p, in_rows, left, window);
            }
            pixel.x = window;
        }
        if (waiting.x) {
            conv2d_s8_mve_outputs(p, tile, waiting, pixel, 1);
            waiting.x = NULL;
        } else {
            waiting = pixel;
        }
        column++;
    }
    return waiting;
}

/* Gathers the input columns that the windows of a row of y read. */
static inline void conv2d_s8_mve_strips(const struct conv2d_s8_mve *p, const int8_t *const *in_rows,
                                        int8_t *scratch) {
    const int32_t channels = p->in_c;
    const int32_t step = p->kernel_h * channels;
    const int32_t upper = p->in_w + p->pad_left;
    const int32_t strips = p->strips;
    const int32_t before = p->pad_left;
    const int32_t zero = p->in_zero;
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int8_t *from = in_rows[k];
        int8_t *to = scratch + k * channels;
        for (int32_t column = 0; column < strips; column++, to += step) {
            if (from && column >= before && column < upper) {
                penstock_copy_vectors(to, from, channels);
                from += channels;
            } else {
                penstock_fill(to, zero, channels);
            }
        }
    }
}

/* Computes a row of y from strips; if the number of pixels is odd, the last one is computed
 * alone. */
static void conv2d_s8_mve_strip_row(const struct conv2d_s8_mve *p, struct penstock_mve_tile *tile,
                                    const int8_t *const *in_rows, int8_t *out, int8_t *scratch) {
    const int32_t pairs = p->out_w / 2;
    const struct conv2d_s8_mve_pixel first = {scratch, out};
    const struct conv2d_s8_mve_pixel second = {scratch + tile->x_advance / 2, out + p->out_c};
    const struct conv2d_s8_mve_pixel last = {scratch + pairs * tile->x_advance,
                                             out + 2 * pairs * p->out_c};
    conv2d_s8_mve_strips(p, in_rows, scratch);
    if (pairs > 0) {
        conv2d_s8_mve_outputs(p, tile, first, second, pairs);
    }
    if (p->out_w % 2 > 0) {
        conv2d_s8_mve_outputs(p, tile, last, last, 1);
    }
}

PENSTOCK_KERNEL void conv2d_s8_mve(const struct conv2d_s8_mve *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper,
                                   int8_t *scratch) {
    struct penstock_mve_tile tile = conv2d_s8_mve_tile(p);
    struct conv2d_s8_mve_pixel waiting = {NULL, NULL};
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            in_rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
        }
        int8_t *out = penstock_write_row(y, row);
        if (p->strips > 0) {
            conv2d_s8_mve_strip_row(p, &tile, in_rows, out, scratch);
        } else {
            waiting = conv2d_s8_mve_row(p, &tile, in_rows, out, waiting, scratch);
        }
    }
    if (waiting.x) {
        conv2d_s8_mve_outputs(p, &tile, waiting, waiting, 1);
    }
    for (int32_t row = lower; row < upper; row++) {
        penstock_limit(penstock_write_row(y, row), p->least, p->most, p->out_w * p->out_c);
    }
}

#endif
