/* conv2d_f32: convolution of floats with bias and clamp.
 *   x  (N, H,  W,  C)                              float
 *   w  (G, ceil(O / G / 4), K, L, C / G, 4)        float   or int8; four outputs of a group together
 *   b  (O)                                         float
 *   y  (N, Ho, Wo, O)                              float
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.  Nothing is added for
 * padding.
 * Source: TensorFlow Lite, reference/conv.h. */
#ifndef PENSTOCK_CONV2D_F32_H
#define PENSTOCK_CONV2D_F32_H

#include "products_f32.h"
#include "window.h"

struct conv2d_f32 {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t groups, weight_bytes;
    const void *weights;
    const float *bias;
    const float *bounds; /* least and largest result */
};

/* Adds the products of `count` elements of one column, or of two, `next` bytes apart. */
PENSTOCK_INLINE_KERNEL void conv2d_f32_run(const int8_t *x, int32_t next, const int8_t *w, int32_t bytes,
                                  int32_t count, float *sums) {
    if (next) {
        penstock_add_products_of_two_f32(x, x + next, w, bytes, count, sums);
    } else {
        penstock_add_products_f32(x, w, bytes, count, sums);
    }
}

/* Adds the products of the windows of one column, or of two, `next` bytes apart, whose taps are
 * inside: `count` taps of `depth` elements in each row, `step` bytes apart. */
static inline void conv2d_f32_window(const struct conv2d_f32 *p, const int8_t *const *in_rows,
                                     penstock_span rows, int32_t before, int32_t count,
                                     int32_t depth, int32_t next, const int8_t *w,
                                     float *sums) {
    const int32_t step = p->dilation_w * p->in_c * 4;
    const int32_t bytes = p->weight_bytes;
    const int32_t row_bytes = p->kernel_w * depth * 4 * bytes;
    if (step == depth * 4) { /* one run of elements */
        depth *= count;
        for (int32_t k = rows.lower; k < rows.upper; k++) {
            conv2d_f32_run(in_rows[k] + before, next, w + k * row_bytes, bytes, depth, sums);
        }
        return;
    }
    for (int32_t k = rows.lower; k < rows.upper; k++) {
        const int8_t *x = in_rows[k] + before;
        const int8_t *row_weights = w + k * row_bytes;
        for (int32_t l = 0; l < count; l++, x += step, row_weights += depth * 4 * bytes) {
            conv2d_f32_run(x, next, row_weights, bytes, depth, sums);
        }
    }
}

/* A row of y, from the rows of its window. */
static void conv2d_f32_row(const struct conv2d_f32 *p, const int8_t *const *in_rows,
                           penstock_span rows, int8_t *out) {
    const int32_t depth = p->in_c / p->groups;
    const int32_t outputs = p->out_c / p->groups;
    const int32_t tap_bytes = depth * 4 * p->weight_bytes;
    const int32_t extent = (p->kernel_w - 1) * p->dilation_w;
    for (int32_t column = 0; column < p->out_w;) {
        const int32_t left = column * p->stride_w - p->pad_left;
        const penstock_span taps =
            penstock_taps_inside(left, p->kernel_w, p->dilation_w, p->in_w);
        const int32_t count = taps.upper > taps.lower ? taps.upper - taps.lower : 0;
        const int is_pair =
            left >= 0 && left + p->stride_w + extent < p->in_w && column + 1 < p->out_w;
        const int32_t next = is_pair ? p->stride_w * p->in_c * 4 : 0;
        const int32_t before = (left + taps.lower * p->dilation_w) * p->in_c;
        const int8_t *w = (const int8_t *)p->weights + taps.lower * tap_bytes;
        for (int32_t group = 0; group < p->groups; group++) {
            const int32_t end = (group + 1) * outputs;
            for (int32_t o = group * outputs; o < end; o += 4, w += p->kernel_h * p->kernel_w * tap_bytes) {
                float sums[8] = {0.0f};
                conv2d_f32_window(p, in_rows, rows, (before + group * depth) * 4, count, depth,
                                  next, w, sums);
                penstock_put_sums(out, o, end, sums, p->bias, p->bounds);
                if (is_pair) {
                    penstock_put_sums(out + p->out_c * 4, o, end, sums + 4, p->bias, p->bounds);
                }
            }
        }
        column += is_pair ? 2 : 1;
        out += p->out_c * 4 * (is_pair ? 2 : 1);
    }
}

PENSTOCK_KERNEL void conv2d_f32(const struct conv2d_f32 *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const penstock_span rows = penstock_taps_inside(top, p->kernel_h, p->dilation_h, p->in_h);
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        penstock_window_rows(x, first_row + top, p->dilation_h, rows, in_rows);
        conv2d_f32_row(p, in_rows, rows, penstock_write_row(y, row));
    }
}

#endif
