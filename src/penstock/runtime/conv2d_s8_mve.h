/* conv2d_s8_mve: convolution with bias, requantisation and clamp, on cores with MVE.
 *   x  (N, H,  W,  C)   int8
 *   y  (N, Ho, Wo, O)   int8
 * Weights and scales lie as tile_mve.h says; the bias is in them.  A window is read where it lies if
 * it is one run of bytes and what is read behind its end lies in the same row; the others are put
 * together in scratch, which has room for two.  Weights beyond a window's end are zero.
 * Computes rows [lower, upper) of y, counted through N and Ho.  Padding counts as in_zero. */
#ifndef PENSTOCK_CONV2D_S8_MVE_H
#define PENSTOCK_CONV2D_S8_MVE_H

#include "tile_mve.h"
#include "window.h"

struct conv2d_s8_mve {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zero, least, most;
    int32_t inner_lower, inner_upper; /* output columns whose windows lie inside */
    int32_t there_upper;              /* those below it are read where they lie, if they are inner */
    int32_t steps;                    /* vectors of a window */
    int32_t quads, quads_rest;        /* of output channels */
    int32_t multiplier, left, is_signed;
    const int8_t *weights;
    const int32_t *scales;
};

/* Windows that wait for a second one, and where their outputs go. */
struct conv2d_s8_mve_windows {
    const int8_t *x;
    int8_t *out;
};

/* A row of a window that begins at column `left`; `row` is NULL above and below the tensor. */
static void conv2d_s8_mve_border(const struct conv2d_s8_mve *p, const int8_t *row, int32_t left,
                                 int8_t *to) {
    for (int32_t l = 0; l < p->kernel_w; l++, to += p->in_c) {
        const int32_t column = left + l * p->dilation_w;
        if (row && column >= 0 && column < p->in_w) {
            penstock_copy(to, row + column * p->in_c, p->in_c);
        } else {
            penstock_fill(to, p->in_zero, p->in_c);
        }
    }
}

/* The window whose first tap lies at column `left`, put together at `to`. */
static void conv2d_s8_mve_gather(const struct conv2d_s8_mve *p, const int8_t *const *in_rows,
                                 int32_t left, int is_inner, int8_t *to) {
    const int32_t bytes = p->kernel_w * p->in_c;
    for (int32_t k = 0; k < p->kernel_h; k++, to += bytes) {
        const int8_t *row = in_rows[k];
        if (row && is_inner) {
            penstock_copy(to, row + left * p->in_c, bytes);
        } else if (!row) {
            penstock_fill(to, p->in_zero, bytes);
        } else {
            conv2d_s8_mve_border(p, row, left, to);
        }
    }
}

/* The outputs of `pairs` pairs of windows, the windows of a pair and of two pairs equally far apart
 * from each other. */
static void conv2d_s8_mve_outputs(const struct conv2d_s8_mve *p, struct conv2d_s8_mve_windows a,
                                  struct conv2d_s8_mve_windows b, int32_t pairs, int32_t advance) {
    const int32_t words = p->is_signed ? 13 : 9;
    const int32_t vectors = 4 * p->steps * PENSTOCK_VECTOR;
    const int32_t rest = p->quads_rest;
    struct penstock_mve_tile tile = {
        a.x,      b.x,   p->steps - 1, {p->multiplier, p->left}, a.out,    b.out, p->scales + words * p->quads,
        p->weights, p->scales, pairs,  advance, 2 * p->out_c - 4 * p->quads, p->quads};
    if (p->quads > 0) {
        (p->is_signed ? penstock_mve_tile_signed : penstock_mve_tile_plain)(&tile);
    }
    for (int32_t pair = 0; rest > 0 && pair < pairs; pair++) {
        int8_t four[2][4];
        struct penstock_mve_tile last = {
            a.x + pair * advance, b.x + pair * advance, p->steps - 1, {p->multiplier, p->left}, four[0],
            four[1], p->scales + words * (p->quads + 1), p->weights + vectors * p->quads,
            p->scales + words * p->quads, 1, 0, 0, 1};
        (p->is_signed ? penstock_mve_tile_signed : penstock_mve_tile_plain)(&last);
        const int32_t at = 2 * pair * p->out_c + 4 * p->quads;
        memcpy(b.out + at, four[1], (size_t)rest);
        memcpy(a.out + at, four[0], (size_t)rest);
    }
}
