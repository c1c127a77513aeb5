/* resample_f32: rows and columns of floats that are weighted sums of others.
 *   x  (N, in_h,  in_w,  channels)  float
 *   y  (N, out_h, out_w, channels)  float
 * Computes rows [lower, upper) of y, where a row index runs over N and out_h.  Sums are rounded
 * after each operation: the taps of a column one after the other, of each the taps of the row.
 * Source: TensorFlow Lite, reference/resize_bilinear.h; ONNX operator specification, Resize. */
#ifndef PENSTOCK_RESAMPLE_F32_H
#define PENSTOCK_RESAMPLE_F32_H

#include "real.h"
#include "view.h"

struct resample_f32 {
    int32_t in_h, channels, out_h, out_w;
    int32_t taps_h, taps_w;
    const int32_t *indices_h, *indices_w; /* by output index: the input index of each tap */
    const float *weights_h, *weights_w;   /* the weight of each tap */
};

/* Channels of a pixel, weighted; added to those of `out` unless it is the first tap. */
static inline void resample_f32_add(const int8_t *in, float down, float across, int32_t channels,
                                    int32_t is_first, int8_t *out) {
    for (int32_t c = 0; c < channels; c++) {
        const float part = penstock_product(penstock_product(penstock_get_f32(in, c), down), across);
        penstock_put_f32(out, c, is_first ? part : penstock_get_f32(out, c) + part);
    }
}

PENSTOCK_KERNEL void resample_f32(const struct resample_f32 *p, const penstock_source *x,
                                  const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t pixel = p->channels * 4;
    for (int32_t row = lower; row < upper; row++) {
        const int32_t h = row % p->out_h * p->taps_h; /* its first tap */
        const int32_t image = row / p->out_h * p->in_h;
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->out_w * p->taps_w; w++) {
            const int32_t is_first = w % p->taps_w == 0;
            for (int32_t k = 0; k < p->taps_h; k++) {
                const int8_t *in = penstock_read_row(x, image + p->indices_h[h + k]);
                resample_f32_add(in + p->indices_w[w] * pixel, p->weights_h[h + k],
                                 p->weights_w[w], p->channels, is_first && k == 0, out);
            }
            out += (w + 1) % p->taps_w == 0 ? pixel : 0;
        }
    }
}

#endif
