/* conv2d_s8_dsp: convolution with bias, requantisation and clamp, on cores with DSP extension.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8
 * Weights and scales lie as tile.h says; the bias is in them.  The inputs of a window are taken
 * row by row in fours, each as its even and its odd bytes; then, one after the other, those at the
 * ends of rows that fill no four.  Scratch: two windows and, where it is needed, a row of one.
 * Computes rows [lower, upper) of y, counted through N and Ho.  Padding counts as in_zero. */
#ifndef PENSTOCK_CONV2D_S8_DSP_H
#define PENSTOCK_CONV2D_S8_DSP_H

#include "row_tile.h"
#include "window.h"

struct conv2d_s8_dsp {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t inner_lower, inner_upper;         /* output columns whose windows lie inside */
    int32_t pairs, row_fours, row_rest;       /* of a window, of a row of it */
    int32_t quads, quads_rest;                /* of output channels */
    int32_t shift, is_signed;
    const int8_t *weights;
    const int32_t *scales;
};

/* Widens `quads` times four bytes into a window. */
static inline int8_t *conv2d_s8_dsp_widen(const int8_t *x, int32_t quads, int8_t *to) {
    for (; quads >= 4; quads -= 4, x += 16, to += 64) {
        const uint32_t a = penstock_load_word(x);
        const uint32_t b = penstock_load_word(x + 4);
        const uint32_t c = penstock_load_word(x + 8);
        const uint32_t d = penstock_load_word(x + 12);
        penstock_store_word(to, penstock_even_bytes(a));
        penstock_store_word(to + 8, penstock_odd_bytes(a));
        penstock_store_word(to + 16, penstock_even_bytes(b));
        penstock_store_word(to + 24, penstock_odd_bytes(b));
        penstock_store_word(to + 32, penstock_even_bytes(c));
        penstock_store_word(to + 40, penstock_odd_bytes(c));
        penstock_store_word(to + 48, penstock_even_bytes(d));
        penstock_store_word(to + 56, penstock_odd_bytes(d));
    }
    for (; quads > 0; quads--, x += 4, to += 16) {
        const uint32_t a = penstock_load_word(x);
        penstock_store_word(to, penstock_even_bytes(a));
        penstock_store_word(to + 8, penstock_odd_bytes(a));
    }
    return to;
}

/* A row of a window that begins at column `left`, put together in `line`.  `row` is NULL above and
 * below the tensor. */
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

/* The window of an output pixel whose first tap lies at column `left`.  Rows are read where they
 * lie if the window `is_inner`. */
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
            const int16_t wide = x[i];
            memcpy(single, &wide, sizeof wide);
            single += step;
            step = 8 - step;
        }
    }
}

/* The output pixels of the two windows. */
static void conv2d_s8_dsp_outputs(const struct conv2d_s8_dsp *p, const int8_t *windows,
                                  int8_t *out0, int8_t *out1) {
    const int32_t quads = p->quads;
    struct penstock_tile tile = {windows, p->weights, p->scales, p->pairs, quads, p->shift};
    if (quads > 0) {
        (p->is_signed ? penstock_tile_signed : penstock_tile_plain)(&tile, out0, out1);
    }
    if (p->quads_rest > 0) {
        int8_t four[2][4];
        tile.weights += 8 * quads * p->pairs;
        tile.scales += 13 * quads;
        tile.quads = 1;
        (p->is_signed ? penstock_tile_signed : penstock_tile_plain)(&tile, four[0], four[1]);
        memcpy(out1 + 4 * quads, four[1], (size_t)p->quads_rest);
        memcpy(out0 + 4 * quads, four[0], (size_t)p->quads_rest);
    }
    if (p->least > -128 || p->most < 127) {
        penstock_clamp_bytes(out1, p->out_c, p->least, p->most);
        penstock_clamp_bytes(out0, p->out_c, p->least, p->most);
    }
}

/* The only input pixel that the last output pixel before row `upper` reads, if it may be read in fours
 * where it lies; else NULL. */
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

/* The output of the last pixel before row `upper`, whose window waits for another. */
static void conv2d_s8_dsp_last(const struct conv2d_s8_dsp *p, const penstock_source *x,
                               int32_t upper, const int8_t *windows, int8_t *out) {
    const int8_t *pixel = conv2d_s8_dsp_lone(p, x, upper);
    if (!pixel || p->quads_rest > 0) {
        conv2d_s8_dsp_outputs(p, windows, out, out);
        return;
    }
    const struct penstock_tile tile = {pixel,    p->weights, p->scales,
                                       p->pairs, p->quads,   p->shift};
    (p->is_signed ? penstock_row_signed : penstock_row_plain)(&tile, out);
    if (p->least > -128 || p->most < 127) {
        penstock_clamp_bytes(out, p->out_c, p->least, p->most);
    }
}

static void conv2d_s8_dsp(const struct conv2d_s8_dsp *p, const penstock_source *x,
                          const penstock_sink *y, int32_t lower, int32_t upper, int8_t *scratch) {
    int8_t *line = scratch + 8 * p->pairs;
    int8_t *waiting = NULL; /* the output of the first window, until there is a second */
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* of this image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            in_rows[k] = inside ? penstock_read_row(x, first_row + at) : NULL;
        }
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++, out += p->out_c) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const int is_inner = column >= p->inner_lower && column < p->inner_upper;
            int8_t *window = waiting ? scratch + 4 : scratch;
            conv2d_s8_dsp_window(p, in_rows, left, is_inner, window, line);
            if (waiting) {
                conv2d_s8_dsp_outputs(p, scratch, waiting, out);
            }
            waiting = waiting ? NULL : out;
        }
    }
    if (waiting) {
        conv2d_s8_dsp_last(p, x, upper, scratch, waiting);
    }
}

#endif
