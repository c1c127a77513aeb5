/* conv2d_s8_dsp: convolution with bias, requantisation and clamp, for cores with the DSP extension.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8
 * tile.h defines the layout of weights and scales, which contain the bias.  The inputs of a window
 * are processed row by row in groups of four, first the even bytes, then the odd ones; the
 * remaining elements of all rows follow, one at a time.  If some channels are constant, the outputs
 * of the other `spread` channels are scattered to their `places` in a pixel of constants.  Scratch:
 * two windows and, if needed, a window row; from byte `found_at`, outputs of two pixels to scatter.
 * Channels `outside` do not share the requantisation form of the others and are computed after
 * them. Computes rows [lower, upper) of y, where a row index runs over N and Ho.  Padding counts as
 * in_zero. */
#ifndef PENSTOCK_CONV2D_S8_DSP_H
#define PENSTOCK_CONV2D_S8_DSP_H

#include "certified.h"
#include "row_tile.h"
#include "window.h"

struct conv2d_s8_dsp {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t inner_lower, inner_upper;         /* columns with windows inside the input */
    int32_t pairs, row_fours, row_rest;       /* of a window, of a row of it */
    int32_t quads, quads_rest;                /* of output channels */
    int32_t spread, found_at;
    int32_t outsiders;
    int32_t shift, is_signed;
    const int8_t *weights;
    const int32_t *scales;
    const int16_t *places;
    const int8_t *constants;
    const int16_t *outside;        /* channels */
    const int8_t *outside_weights; /* 2 * pairs per channel; of two pairs, the first numbers first */
    const int32_t *outside_bias;
    const int32_t *outside_forms; /* see certified.h */
};

/* Widens `fours` times four bytes into a window. */
static inline int8_t *conv2d_s8_dsp_widen(const int8_t *x, int32_t fours, int8_t *to) {
    for (; fours > 0; fours--, x += 4, to += 16) {
        const uint32_t four = penstock_load_word(x);
        penstock_store_word(to, penstock_even_bytes(four));
        penstock_store_word(to + 8, penstock_odd_bytes(four));
    }
    return to;
}

/* Widens four bytes at x, and those `apart`, into two windows. */
static inline void conv2d_s8_dsp_widen_four(const int8_t *x, int32_t apart, int8_t *to) {
    const uint32_t a = penstock_load_word(x);
    const uint32_t b = penstock_load_word(x + apart);
    penstock_store_word(to, penstock_even_bytes(a));
    penstock_store_word(to + 4, penstock_even_bytes(b));
    penstock_store_word(to + 8, penstock_odd_bytes(a));
    penstock_store_word(to + 12, penstock_odd_bytes(b));
}

/* Widens `fours` times four bytes into each of two windows. */
static inline int8_t *conv2d_s8_dsp_widen_two(const int8_t *x, int32_t apart, int32_t fours,
                                              int8_t *to) {
    for (; fours >= 4; fours -= 4, x += 16, to += 64) {
        conv2d_s8_dsp_widen_four(x, apart, to);
        conv2d_s8_dsp_widen_four(x + 4, apart, to + 16);
        conv2d_s8_dsp_widen_four(x + 8, apart, to + 32);
        conv2d_s8_dsp_widen_four(x + 12, apart, to + 48);
    }
    for (; fours > 0; fours--, x += 4, to += 16) {
        conv2d_s8_dsp_widen_four(x, apart, to);
    }
    return to;
}

/* Widens a number into a window. */
static inline void conv2d_s8_dsp_single(int8_t x, int8_t *to) {
    const int16_t wide = x;
    memcpy(to, &wide, sizeof wide);
}

/* Gathers a window row that begins at column `left` in `line`.  `row` is NULL above and below the
 * tensor. */
static const int8_t *conv2d_s8_dsp_line(const struct conv2d_s8_dsp *p, const int8_t *row,
                                        int32_t left, int8_t *line) {
    if (p->dilation_w == 1) { /* one run, with padding on both sides */
        const int32_t before = row && left < 0 ? -left : 0;
        const int32_t lower = before < p->kernel_w ? before : p->kernel_w;
        const int32_t end = row ? p->in_w - left : 0;
        const int32_t upper = end < lower ? lower : (end < p->kernel_w ? end : p->kernel_w);
        memset(line, p->in_zero, (size_t)(lower * p->in_c));
        if (lower < upper) {
            memcpy(line + lower * p->in_c, row + (left + lower) * p->in_c,
                   (size_t)((upper - lower) * p->in_c));
        }
        memset(line + upper * p->in_c, p->in_zero, (size_t)((p->kernel_w - upper) * p->in_c));
        return line;
    }
    for (int32_t l = 0; l < p->kernel_w; l++) {
        const int32_t column = left + l * p->dilation_w;
        int8_t *to = line + l * p->in_c;
        if (row && column >= 0 && column < p->in_w) {
            memcpy(to, row + column * p->in_c, (size_t)p->in_c);
        } else {
            memset(to, p->in_zero, (size_t)p->in_c);
        }
    }
    return line;
}

/* Gathers the window of an output pixel; the first tap is at column `left`.  Rows are read in place
 * if the window `is_inner`. */
static inline void conv2d_s8_dsp_window(const struct conv2d_s8_dsp *p, const int8_t *const *in_rows,
                                        int32_t left, int is_inner, int8_t *window, int8_t *line) {
    int8_t *single = window + p->row_fours * 16 * p->kernel_h;
    int32_t step = 2; /* to the second number of a pair, else to the next pair */
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int8_t *x = is_inner && in_rows[k]
                              ? in_rows[k] + left * p->in_c
                              : conv2d_s8_dsp_line(p, in_rows[k], left, line);
        window = conv2d_s8_dsp_widen(x, p->row_fours, window);
        x += p->row_fours * 4;
        for (int32_t i = 0; i < p->row_rest; i++) {
            conv2d_s8_dsp_single(x[i], single);
            single += step;
            step = 8 - step;
        }
    }
}

/* Computes the channels that remain after groups of four, and clamps the output pixels. */
__attribute__((noinline)) static void conv2d_s8_dsp_finish(const struct conv2d_s8_dsp *p,
                                                           const struct penstock_tile *tile,
                                                           int8_t *out0, int8_t *out1) {
    if (p->quads_rest > 0) {
        int8_t four[2][4];
        struct penstock_tile last = *tile;
        last.weights += 8 * tile->quads * tile->pairs;
        last.scales += 13 * tile->quads;
        last.quads = 1;
        (p->is_signed ? penstock_tile_signed : penstock_tile_plain)(&last, four[0], four[1]);
        memcpy(out1 + 4 * tile->quads, four[1], (size_t)p->quads_rest);
        memcpy(out0 + 4 * tile->quads, four[0], (size_t)p->quads_rest);
    }
    if (p->least > -128 || p->most < 127) {
        penstock_clamp_bytes(out1, p->out_c, p->least, p->most);
        penstock_clamp_bytes(out0, p->out_c, p->least, p->most);
    }
}

/* Writes a pixel: the constant channels, and the computed outputs of the other channels. */
static inline void conv2d_s8_dsp_place(const struct conv2d_s8_dsp *p, int8_t *found, int8_t *out) {
    if (p->least > -128 || p->most < 127) {
        penstock_clamp_bytes(found, p->spread, p->least, p->most);
    }
    memcpy(out, p->constants, p->spread > 0 ? (size_t)p->out_c : 0); /* else there is no pixel */
    for (int32_t k = 0; k < p->spread; k++) {
        out[p->places[k]] = found[k];
    }
}

/* Computes the output pixels of two windows if some channels are constant. */
__attribute__((noinline)) static void conv2d_s8_dsp_spread(const struct conv2d_s8_dsp *p,
                                                           const struct penstock_tile *tile,
                                                           int8_t *out0, int8_t *out1,
                                                           int8_t *found) {
    (p->is_signed ? penstock_tile_signed : penstock_tile_plain)(tile, found,
                                                                found + 4 * p->quads);
    conv2d_s8_dsp_place(p, found + 4 * p->quads, out1); /* first: both may have the same address */
    conv2d_s8_dsp_place(p, found, out0);
}

/* sum + the products of two numbers each. */
static inline int32_t conv2d_s8_dsp_pair(uint32_t x, uint32_t w, int32_t sum) {
    return penstock_add_upper(x, w, penstock_add_lower(x, w, sum));
}

/* Computes the channels `outside` of a window's output pixel. */
__attribute__((noinline)) static void conv2d_s8_dsp_outside(const struct conv2d_s8_dsp *p,
                                                            const int8_t *window, int8_t *out) {
    const int8_t *w = p->outside_weights;
    for (int32_t k = 0; k < p->outsiders; k++) {
        int32_t sum = p->outside_bias[k];
        const int8_t *x = window;
        for (int32_t pairs = p->pairs; pairs > 0; pairs -= 2, x += 16, w += 4) {
            const uint32_t four = penstock_load_word(w);
            sum = conv2d_s8_dsp_pair(penstock_load_word(x), penstock_even_bytes(four), sum);
            sum = conv2d_s8_dsp_pair(penstock_load_word(x + 8), penstock_odd_bytes(four), sum);
        }
        sum = penstock_certified(sum, p->outside_forms + 6 * k);
        out[p->outside[k]] = (int8_t)penstock_clamp(sum, p->least, p->most);
    }
}

/* Computes the output pixels of two windows, for the channels that share a requantisation form. */
static inline void conv2d_s8_dsp_inside(const struct conv2d_s8_dsp *p,
                                        const struct penstock_tile *tile, int8_t *out0,
                                        int8_t *out1, int8_t *scratch) {
    if (p->spread > 0) {
        conv2d_s8_dsp_spread(p, tile, out0, out1, scratch + p->found_at);
        return;
    }
    if (p->quads > 0) {
        (p->is_signed ? penstock_tile_signed : penstock_tile_plain)(tile, out0, out1);
    }
    if (p->quads_rest > 0 || p->least > -128 || p->most < 127) {
        conv2d_s8_dsp_finish(p, tile, out0, out1);
    }
}

/* Computes the output pixels of the two windows in `scratch`. */
static inline void conv2d_s8_dsp_outputs(const struct conv2d_s8_dsp *p,
                                         const struct penstock_tile *tile, int8_t *out0,
                                         int8_t *out1, int8_t *scratch) {
    conv2d_s8_dsp_inside(p, tile, out0, out1, scratch);
    if (p->outsiders > 0) {
        conv2d_s8_dsp_outside(p, scratch + 4, out1); /* first: both may have the same address */
        conv2d_s8_dsp_outside(p, scratch, out0);
    }
}

/* The only input pixel that the last output pixel before row `upper` reads, if it can be read in
 * place in fours; otherwise NULL. */
static const int8_t *conv2d_s8_dsp_lone(const struct conv2d_s8_dsp *p, const penstock_source *x,
                                        int32_t upper) {
    const int32_t row = upper - 1;
    const int32_t at = row % p->out_h * p->stride_h - p->pad_top;
    const int32_t left = (p->out_w - 1) * p->stride_w - p->pad_left;
    if (p->kernel_h * p->kernel_w > 1 || p->row_rest || at < 0 || at >= p->in_h || left < 0 ||
        left >= p->in_w) {
        return NULL;
    }
    return penstock_read_row(x, row / p->out_h * p->in_h + at) + left * p->in_c;
}

/* Computes the last pixel before row `upper` if its window has no partner. */
static void conv2d_s8_dsp_last(const struct conv2d_s8_dsp *p, const penstock_source *x,
                               int32_t upper, const struct penstock_tile *windows,
                               int8_t *out, int8_t *scratch) {
    const int8_t *pixel = conv2d_s8_dsp_lone(p, x, upper);
    if (!pixel || p->quads_rest > 0 || p->spread > 0 || p->outsiders > 0) {
        conv2d_s8_dsp_outputs(p, windows, out, out, scratch);
        return;
    }
    struct penstock_tile tile = *windows;
    tile.window = pixel;
    (p->is_signed ? penstock_row_signed : penstock_row_plain)(&tile, out);
    if (p->least > -128 || p->most < 127) {
        penstock_clamp_bytes(out, p->out_c, p->least, p->most);
    }
}

/* Computes `count` pairs of adjacent pixels in an output row.  The first window begins at column
 * `left` of the rows; all taps are inside the input. */
static void conv2d_s8_dsp_twos(const struct conv2d_s8_dsp *p, const struct penstock_tile *tile,
                               const int8_t *const *in_rows, int32_t left, int32_t count,
                               int8_t *out, int8_t *window) {
    const int32_t fours = p->row_fours;
    const int32_t rest = p->row_rest;
    const int32_t rows = p->kernel_h;
    const int32_t out_c = p->out_c;
    const int32_t apart = p->stride_w * p->in_c;
    int8_t *singles = window + fours * 16 * rows;
    for (int32_t at = left * p->in_c; count > 0; count--, at += 2 * apart, out += 2 * out_c) {
        int8_t *to = window;
        int8_t *single = singles;
        int32_t step = 2; /* to the second number of a pair, else to the next pair */
        for (int32_t k = 0; k < rows; k++) {
            const int8_t *x = in_rows[k] + at;
            to = conv2d_s8_dsp_widen_two(x, apart, fours, to);
            x += fours * 4;
            for (int32_t i = 0; i < rest; i++, single += step, step = 8 - step) {
                conv2d_s8_dsp_single(x[i], single);
                conv2d_s8_dsp_single(x[i + apart], single + 4);
            }
        }
        conv2d_s8_dsp_outputs(p, tile, out, out + out_c, window);
    }
}

/* Finds the input rows under the windows of an output row, NULL outside the tensor.  Returns
 * whether all rows are inside. */
static int conv2d_s8_dsp_rows(const struct conv2d_s8_dsp *p, const penstock_source *x, int32_t row,
                              const int8_t **in_rows) {
    const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
    const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
    int are_inside = 1;
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int32_t at = top + k * p->dilation_h;
        const int inside = at >= 0 && at < p->in_h;
        in_rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
        are_inside &= inside;
    }
    return are_inside;
}

PENSTOCK_KERNEL void conv2d_s8_dsp(const struct conv2d_s8_dsp *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper,
                                   int8_t *scratch) {
    const struct penstock_tile tile = {scratch,  p->weights, p->scales,
                                       p->pairs, p->quads,   p->shift};
    int8_t *line = scratch + 8 * p->pairs;
    int8_t *waiting = NULL; /* output of a first window without a second one yet */
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        const int are_inside = conv2d_s8_dsp_rows(p, x, row, in_rows);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const int is_inner = column >= p->inner_lower && column < p->inner_upper;
            const int32_t twos = is_inner && are_inside ? (p->inner_upper - column) / 2 : 0;
            int8_t *pixel = out + column * p->out_c;
            if (!waiting && twos > 0) {
                conv2d_s8_dsp_twos(p, &tile, in_rows, left, twos, pixel, scratch);
                column += 2 * twos - 1;
                continue;
            }
            conv2d_s8_dsp_window(p, in_rows, left, is_inner, waiting ? scratch + 4 : scratch, line);
            if (waiting) {
                conv2d_s8_dsp_outputs(p, &tile, waiting, pixel, scratch);
            }
            waiting = waiting ? NULL : pixel;
        }
    }
    if (waiting) {
        conv2d_s8_dsp_last(p, x, upper, &tile, waiting, scratch);
    }
}

#endif
