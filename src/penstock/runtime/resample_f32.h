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

/* Where a tap reads channels, and its weights. */
typedef struct {
    const int8_t *in;
    float down, across;
} resample_f32_tap;

/* Adds the channels of `count` taps, weighted, to those of `out`; the first taps of a sum have
 * nothing to be added to. */
static inline void resample_f32_add(const resample_f32_tap *taps, int32_t count, int32_t is_first,
                                    int32_t channels, int8_t *out) {
    for (int32_t c = 0; c < channels; c++) {
        float sum = is_first ? 0.0f : penstock_get_f32(out, c);
        for (int32_t k = 0; k < count; k++) {
            const float x = penstock_product(penstock_get_f32(taps[k].in, c), taps[k].down);
            const float part = penstock_product(x, taps[k].across);
            sum = is_first && k == 0 ? part : sum + part;
        }
        penstock_put_f32(out, c, sum);
    }
}

PENSTOCK_KERNEL void resample_f32(const struct resample_f32 *p, const penstock_source *x,
                                  const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t count = p->taps_w * p->taps_h;
    for (int32_t row = lower; row < upper; row++) {
        const int32_t image = row / p->out_h * p->in_h;
        const int32_t *indices_h = p->indices_h + row % p->out_h * p->taps_h;
        const float *weights_h = p->weights_h + row % p->out_h * p->taps_h;
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++, out += p->channels * 4) {
            resample_f32_tap taps[4]; /* those that are added at once */
            for (int32_t t = 0, k = 0, w = column * p->taps_w; t < count; t++) {
                const int8_t *in = penstock_read_row(x, image + indices_h[k]);
                taps[t % 4].in = in + p->indices_w[w] * p->channels * 4;
                taps[t % 4].down = weights_h[k];
                taps[t % 4].across = p->weights_w[w];
                if (t == 3) {
                    resample_f32_add(taps, 4, 1, p->channels, out);
                } else if (t % 4 == 3) {
                    resample_f32_add(taps, 4, 0, p->channels, out);
                } else if (t == count - 1) {
                    resample_f32_add(taps, t % 4 + 1, t < 4, p->channels, out);
                }
                k = k + 1 < p->taps_h ? k + 1 : 0;
                w += k == 0;
            }
        }
    }
}

#endif
