/* conv2d_s8_thumb: convolution with bias, requantisation and clamp, on cores without long
 * multiplications.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8
 * thumb_tile.h defines the layout of weights, which contain the bias.  Two output pixels are
 * computed at a time; their inputs are gathered in a window, row by row.  Constant channels have no
 * weights; their outputs are in `idle`.  Scratch: the window and, with padding, two rows. Computes
 * rows [lower, upper) of y, where a row index runs over N and Ho.  Padding counts as in_zero. */
#ifndef PENSTOCK_CONV2D_S8_THUMB_H
#define PENSTOCK_CONV2D_S8_THUMB_H

#include "thumb_tile.h"
#include "window.h"

struct conv2d_s8_thumb {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero;
    int32_t inner_lower, inner_upper; /* columns with windows inside the input */
    int32_t words;                    /* of the window */
    int32_t groups, is_signed, has_idle;
    const int8_t *weights;
    const int8_t *idle; /* outputs of a pixel */
};

/* An output pixel: the rows of its window (NULL above and below the tensor) and their first
 * column. */
struct conv2d_s8_thumb_pixel {
    const int8_t *const *rows;
    int8_t *out;
    int32_t left, is_inner;
};

/* Row k of a pixel's window, in place or gathered in `line`. */
static const int8_t *conv2d_s8_thumb_row(const struct conv2d_s8_thumb *p,
                                         const struct conv2d_s8_thumb_pixel *pixel, int32_t k,
                                         int8_t *line) {
    const int8_t *row = pixel->rows[k];
    if (row && pixel->is_inner) {
        return row + pixel->left * p->in_c;
    }
    for (int32_t l = 0; l < p->kernel_w; l++) {
        const int32_t column = pixel->left + l * p->dilation_w;
        int8_t *to = line + l * p->in_c;
        if (row && column >= 0 && column < p->in_w) {
            memcpy(to, row + column * p->in_c, (size_t)p->in_c);
        } else {
            memset(to, p->in_zero, (size_t)p->in_c);
        }
    }
    return line;
}

/* Computes the outputs of two pixels, which may be the same. */
static void conv2d_s8_thumb_outputs(const struct conv2d_s8_thumb *p,
                                    const struct conv2d_s8_thumb_pixel *a,
                                    const struct conv2d_s8_thumb_pixel *b, int8_t *scratch) {
    const int32_t row_elements = p->kernel_w * p->in_c;
    int8_t *line = scratch + 4 * p->words;
    int8_t *to = scratch;
    if (p->has_idle) {
        memcpy(a->out, p->idle, (size_t)p->out_c);
        memcpy(b->out, p->idle, (size_t)p->out_c);
    }
    for (int32_t k = 0; k < p->kernel_h; k++) {
        const int8_t *row = conv2d_s8_thumb_row(p, a, k, line);
        const int8_t *other = conv2d_s8_thumb_row(p, b, k, line + row_elements);
        to = penstock_thumb_pack(row, other, row_elements, to);
    }
    if (p->groups > 0) {
        const struct penstock_thumb_tile tile = {scratch, scratch + 4 * p->words, p->weights,
                                                 p->groups};
        (p->is_signed ? penstock_thumb_tile_signed : penstock_thumb_tile_plain)(&tile, a->out,
                                                                                b->out);
    }
}

PENSTOCK_KERNEL void conv2d_s8_thumb(const struct conv2d_s8_thumb *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper,
                                     int8_t *scratch) {
    const int8_t *in_rows[2][PENSTOCK_WINDOW_ROWS]; /* of this output row and the preceding one */
    struct conv2d_s8_thumb_pixel waiting = {NULL, NULL, 0, 0}; /* for a partner */
    for (int32_t row = lower; row < upper; row++) {
        const int32_t image = row < p->out_h ? 0 : row / p->out_h; /* a division is a call */
        const int32_t first_row = image * p->in_h;
        const int32_t top = (row - image * p->out_h) * p->stride_h - p->pad_top;
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t at = top + k * p->dilation_h;
            const int inside = at >= 0 && at < p->in_h;
            in_rows[row & 1][k] = inside ? penstock_read_row(x, first_row + at) : NULL;
        }
        struct conv2d_s8_thumb_pixel pixel = {in_rows[row & 1], penstock_write_row(y, row),
                                              -p->pad_left, 0};
        for (int32_t column = 0; column < p->out_w; column++) {
            pixel.is_inner = column >= p->inner_lower && column < p->inner_upper;
            if (waiting.rows) {
                conv2d_s8_thumb_outputs(p, &waiting, &pixel, scratch);
                waiting.rows = NULL;
            } else {
                waiting = pixel;
            }
            pixel.out += p->out_c;
            pixel.left += p->stride_w;
        }
    }
    if (waiting.rows) {
        conv2d_s8_thumb_outputs(p, &waiting, &waiting, scratch);
    }
}

#endif
