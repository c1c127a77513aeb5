/* depthwise_conv2d_f32: depthwise convolution of floats with bias and clamp.
 *   x  (N, H,  W,  C)      float     w  (1, K, L, C * D)  float or int8
 *   y  (N, Ho, Wo, C * D)  float     b  (C * D)           float
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.  Nothing is added for
 * padding.
 * Source: TensorFlow Lite, reference/depthwiseconv_float.h. */
#ifndef PENSTOCK_DEPTHWISE_CONV2D_F32_H
#define PENSTOCK_DEPTHWISE_CONV2D_F32_H

#include "products_f32.h"
#include "window.h"

struct depthwise_conv2d_f32 {
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t multiplier_d; /* output channels for each input channel */
    int32_t weight_bytes;
    const void *weights;
    const float *bias;
    const float *bounds; /* least and largest result */
};

/* Adds to four sums the products of four inputs, each with its weight. */
#define PENSTOCK_ADD_EACH(sum, x, w)                                                              \
    sum##0 += penstock_product(penstock_get_f32(x, 0), (w)[0]);                                   \
    sum##1 += penstock_product(penstock_get_f32(x, 1), (w)[1]);                                   \
    sum##2 += penstock_product(penstock_get_f32(x, 2), (w)[2]);                                   \
    sum##3 += penstock_product(penstock_get_f32(x, 3), (w)[3])

/* Taps of a row of a window: of the weights and of the inputs, `step` bytes apart. */
struct depthwise_conv2d_f32_taps {
    const int8_t *weights;
    int32_t weight_bytes, count, step, channels;
};

/* Adds the products of a row of taps to sums of four channels. */
static inline void depthwise_conv2d_f32_four(const int8_t *x,
                                             const struct depthwise_conv2d_f32_taps *taps,
                                             float *sums) {
    PENSTOCK_LOAD_FOUR(a, sums);
    if (PENSTOCK_NARROW_WEIGHTS && taps->weight_bytes == 1) {
        const int8_t *w = taps->weights;
        for (int32_t l = 0; l < taps->count; l++, x += taps->step, w += taps->channels) {
            PENSTOCK_ADD_EACH(a, x, w);
        }
    } else {
        const float *w = PENSTOCK_FLOATS(taps->weights);
        for (int32_t l = 0; l < taps->count; l++, x += taps->step, w += taps->channels) {
            PENSTOCK_ADD_EACH(a, x, w);
        }
    }
    PENSTOCK_STORE_FOUR(sums, a);
}

/* The same for two columns, `next` bytes apart; the sums of the second follow those of the first. */
static inline void depthwise_conv2d_f32_two_fours(const int8_t *x, int32_t next,
                                                  const struct depthwise_conv2d_f32_taps *taps,
                                                  float *sums) {
    PENSTOCK_LOAD_FOUR(a, sums);
    PENSTOCK_LOAD_FOUR(b, sums + 4);
    if (PENSTOCK_NARROW_WEIGHTS && taps->weight_bytes == 1) {
        const int8_t *each = taps->weights;
        for (int32_t l = 0; l < taps->count; l++, x += taps->step, each += taps->channels) {
            const float w[4] = {each[0], each[1], each[2], each[3]};
            PENSTOCK_ADD_EACH(a, x, w);
            PENSTOCK_ADD_EACH(b, x + next, w);
        }
    } else {
        const float *w = PENSTOCK_FLOATS(taps->weights);
        for (int32_t l = 0; l < taps->count; l++, x += taps->step, w += taps->channels) {
            PENSTOCK_ADD_EACH(a, x, w);
            PENSTOCK_ADD_EACH(b, x + next, w);
        }
    }
    PENSTOCK_STORE_FOUR(sums, a);
    PENSTOCK_STORE_FOUR(sums + 4, b);
}

/* Adds the products of a row of taps to the sum of one channel. */
static inline void depthwise_conv2d_f32_one(const int8_t *x,
                                            const struct depthwise_conv2d_f32_taps *taps,
                                            float *sum) {
    for (int32_t l = 0; l < taps->count; l++, x += taps->step) {
        const int32_t at = l * taps->channels;
        const float w = PENSTOCK_NARROW_WEIGHTS && taps->weight_bytes == 1
                            ? taps->weights[at]
                            : PENSTOCK_FLOATS(taps->weights)[at];
        *sum += penstock_product(penstock_get_f32(x, 0), w);
    }
}

/* A row of y, from the rows of its window.  Two columns are computed together where all their taps
 * are inside, and so are four channels. */
static void depthwise_conv2d_f32_row(const struct depthwise_conv2d_f32 *p,
                                     const int8_t *const *in_rows, penstock_span rows,
                                     int8_t *out) {
    const int32_t bytes = p->weight_bytes;
    const int32_t extent = (p->kernel_w - 1) * p->dilation_w;
    const int32_t row_bytes = p->kernel_w * p->out_c * bytes;
    const int32_t next = p->stride_w * p->in_c * 4;
    const int32_t fours = p->multiplier_d == 1 ? p->out_c / 4 * 4 : 0;
    for (int32_t column = 0; column < p->out_w;) {
        const int32_t left = column * p->stride_w - p->pad_left;
        const penstock_span inside =
            penstock_taps_inside(left, p->kernel_w, p->dilation_w, p->in_w);
        const int32_t before = (left + inside.lower * p->dilation_w) * p->in_c;
        const int is_pair =
            left >= 0 && left + p->stride_w + extent < p->in_w && column + 1 < p->out_w;
        const int32_t columns = is_pair ? 2 : 1;
        const int8_t *w = (const int8_t *)p->weights + inside.lower * p->out_c * bytes;
        struct depthwise_conv2d_f32_taps taps = {w, bytes, inside.upper - inside.lower,
                                                 p->dilation_w * p->in_c * 4, p->out_c};
        for (int32_t o = 0; o < fours; o += 4) {
            float sums[8] = {0.0f};
            for (int32_t k = rows.lower; k < rows.upper; k++) {
                const int8_t *in = in_rows[k] + (before + o) * 4;
                taps.weights = w + k * row_bytes + o * bytes;
                if (is_pair) {
                    depthwise_conv2d_f32_two_fours(in, next, &taps, sums);
                } else {
                    depthwise_conv2d_f32_four(in, &taps, sums);
                }
            }
            penstock_put_sums(out, o, o + 4, sums, p->bias, p->bounds);
            if (is_pair) {
                penstock_put_sums(out + p->out_c * 4, o, o + 4, sums + 4, p->bias, p->bounds);
            }
        }
        for (int32_t c = 0; c < columns; c++) {
            for (int32_t o = fours; o < p->out_c; o++) {
                const int32_t offset = (before + o / p->multiplier_d) * 4 + c * next;
                float sum = 0.0f;
                for (int32_t k = rows.lower; k < rows.upper; k++) {
                    taps.weights = w + k * row_bytes + o * bytes;
                    depthwise_conv2d_f32_one(in_rows[k] + offset, &taps, &sum);
                }
                penstock_put_sums(out + c * p->out_c * 4, o, o + 1, &sum, p->bias, p->bounds);
            }
        }
        column += columns;
        out += p->out_c * 4 * columns;
    }
}

PENSTOCK_KERNEL void depthwise_conv2d_f32(const struct depthwise_conv2d_f32 *p,
                                          const penstock_source *x, const penstock_sink *y,
                                          int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;
        const penstock_span rows = penstock_taps_inside(top, p->kernel_h, p->dilation_h, p->in_h);
        const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
        penstock_window_rows(x, first_row + top, p->dilation_h, rows, in_rows);
        depthwise_conv2d_f32_row(p, in_rows, rows, penstock_write_row(y, row));
    }
}

#endif
