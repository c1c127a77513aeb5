/* resize_bilinear_s8: bilinear interpolation of the four inputs around each output position.
 *   x  (N, in_h,  in_w,  channels)  int8
 *   y  (N, out_h, out_w, channels)  int8
 * Positions and weights have 10 fraction bits.  Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/resize_bilinear.h (ResizeBilinearInteger). */
#ifndef PENSTOCK_RESIZE_BILINEAR_S8_H
#define PENSTOCK_RESIZE_BILINEAR_S8_H

#include "fixedpoint.h"
#include "view.h"

struct resize_bilinear_s8 {
    int32_t in_h, in_w, channels, out_h, out_w;
    int32_t scale_h, scale_w, offset_h, offset_w;
};

/* Input indices around a position, and the weight of the second in 1/1024. */
typedef struct {
    int32_t before, after, weight;
} resize_bilinear_s8_pair;

static inline resize_bilinear_s8_pair resize_bilinear_s8_around(int32_t position, int32_t extent) {
    resize_bilinear_s8_pair pair;
    pair.before = penstock_clamp(position >> 10, 0, extent - 1);
    pair.after = penstock_clamp((position + 1023) >> 10, pair.before, extent - 1);
    pair.weight = position - pair.before * 1024;
    return pair;
}

PENSTOCK_KERNEL void resize_bilinear_s8(const struct resize_bilinear_s8 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const resize_bilinear_s8_pair h =
            resize_bilinear_s8_around(row % p->out_h * p->scale_h + p->offset_h, p->in_h);
        const int8_t *top = penstock_read_row(x, first_row + h.before);
        const int8_t *bottom = penstock_read_row(x, first_row + h.after);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            const resize_bilinear_s8_pair w =
                resize_bilinear_s8_around(column * p->scale_w + p->offset_w, p->in_w);
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t left = w.before * p->channels + c;
                const int32_t right = w.after * p->channels + c;
                const int32_t above = top[left] * (1024 - w.weight) + top[right] * w.weight;
                const int32_t below = bottom[left] * (1024 - w.weight) + bottom[right] * w.weight;
                const int32_t total = above * (1024 - h.weight) + below * h.weight;
                *out++ = (int8_t)((total + (total > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
            }
        }
    }
}

#endif
