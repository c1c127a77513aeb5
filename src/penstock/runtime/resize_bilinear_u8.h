/* resize_bilinear_u8: bilinear interpolation in single precision, as for uint8 elements, which are
 * less by 128 here.
 *   x  (N, in_h,  in_w,  channels)  int8
 *   y  (N, out_h, out_w, channels)  int8
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/resize_bilinear.h (ResizeBilinear). */
#ifndef PENSTOCK_RESIZE_BILINEAR_U8_H
#define PENSTOCK_RESIZE_BILINEAR_U8_H

#include "view.h"

struct resize_bilinear_u8 {
    int32_t in_h, in_w, channels, out_h, out_w;
    int32_t half; /* 1: positions are those of the centres of elements */
    const float *scale; /* of rows, of columns: input elements per output element */
};

/* Input indices around a position, and the weights of both. */
typedef struct {
    int32_t before, after;
    float weights[2];
} resize_bilinear_u8_pair;

static inline resize_bilinear_u8_pair resize_bilinear_u8_around(int32_t index, float scale,
                                                                int32_t half, int32_t extent) {
    const float position =
        half ? ((float)index + 0.5f) * scale - 0.5f : (float)index * scale; /* above -1 */
    resize_bilinear_u8_pair pair;
    pair.before = position > 0.0f ? (int32_t)position : 0;
    pair.after = pair.before + ((float)pair.before < position);
    pair.after = pair.after < extent ? pair.after : extent - 1;
    pair.weights[1] = position - (float)pair.before;
    pair.weights[0] = 1.0f - pair.weights[1];
    return pair;
}

static inline float resize_bilinear_u8_term(int8_t element, float down, float across) {
    return (float)(element + 128) * down * across;
}

PENSTOCK_KERNEL void resize_bilinear_u8(const struct resize_bilinear_u8 *p,
                                        const penstock_source *x, const penstock_sink *y,
                                        int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t first_row = row / p->out_h * p->in_h; /* within its image */
        const resize_bilinear_u8_pair h =
            resize_bilinear_u8_around(row % p->out_h, p->scale[0], p->half, p->in_h);
        const int8_t *top = penstock_read_row(x, first_row + h.before);
        const int8_t *bottom = penstock_read_row(x, first_row + h.after);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            const resize_bilinear_u8_pair w =
                resize_bilinear_u8_around(column, p->scale[1], p->half, p->in_w);
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t left = w.before * p->channels + c;
                const int32_t right = w.after * p->channels + c;
                float sum = resize_bilinear_u8_term(top[left], h.weights[0], w.weights[0]);
                sum += resize_bilinear_u8_term(bottom[left], h.weights[1], w.weights[0]);
                sum += resize_bilinear_u8_term(top[right], h.weights[0], w.weights[1]);
                sum += resize_bilinear_u8_term(bottom[right], h.weights[1], w.weights[1]);
                *out++ = (int8_t)((int32_t)(sum + 0.5f) - 128);
            }
        }
    }
}

#endif
