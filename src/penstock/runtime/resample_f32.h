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

static inline float resample_f32_part(resample_f32_tap tap, int32_t c) {
    return penstock_product(penstock_product(penstock_get_f32(tap.in, c), tap.down), tap.across);
}

/* Adds the channels of a tap, weighted, to those of `out`; the first has nothing to be added to. */
static inline void resample_f32_add(resample_f32_tap tap, int32_t is_first, int32_t channels,
                                    int8_t *out) {
    for (int32_t c = 0; c < channels; c++) {
        const float part = resample_f32_part(tap, c);
        penstock_put_f32(out, c, is_first ? part : penstock_get_f32(out, c) + part);
    }
}

/* A row of sums of two rows and two columns, as bilinear interpolation has. */
static inline void resample_f32_bilinear(const struct resample_f32 *p, const int8_t *const *in,
                                         const float *down, int8_t *out) {
    const int32_t channels = p->channels, pixel = channels * 4;
    const int32_t *index = p->indices_w, *end = index + p->out_w * 2;
    for (const float *across = p->weights_w; index < end; index += 2, across += 2, out += pixel) {
        const int32_t left = index[0] * pixel, right = index[1] * pixel;
        const resample_f32_tap tap0 = {in[0] + left, down[0], across[0]};
        const resample_f32_tap tap1 = {in[1] + left, down[1], across[0]};
        const resample_f32_tap tap2 = {in[0] + right, down[0], across[1]};
        const resample_f32_tap tap3 = {in[1] + right, down[1], across[1]};
        for (int32_t c = 0; c < channels; c++) {
            float sum = resample_f32_part(tap0, c) + resample_f32_part(tap1, c);
            sum += resample_f32_part(tap2, c);
            penstock_put_f32(out, c, sum + resample_f32_part(tap3, c));
        }
    }
}

PENSTOCK_KERNEL void resample_f32(const struct resample_f32 *p, const penstock_source *x,
                                  const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t image = row / p->out_h * p->in_h;
        const int32_t *indices_h = p->indices_h + row % p->out_h * p->taps_h;
        const float *weights_h = p->weights_h + row % p->out_h * p->taps_h;
        int8_t *out = penstock_write_row(y, row);
        if (p->taps_h == 2 && p->taps_w == 2) {
            const int8_t *in[2];
            in[0] = penstock_read_row(x, image + indices_h[0]);
            in[1] = penstock_read_row(x, image + indices_h[1]);
            resample_f32_bilinear(p, in, weights_h, out);
            continue;
        }
        for (int32_t w = 0; w < p->out_w * p->taps_w; w++) {
            const int32_t is_first = w % p->taps_w == 0;
            for (int32_t k = 0; k < p->taps_h; k++) {
                const int8_t *in = penstock_read_row(x, image + indices_h[k]);
                const resample_f32_tap tap = {in + p->indices_w[w] * p->channels * 4, weights_h[k],
                                              p->weights_w[w]};
                resample_f32_add(tap, is_first && k == 0, p->channels, out);
            }
            out += (w + 1) % p->taps_w == 0 ? p->channels * 4 : 0;
        }
    }
}

#endif
