/* quantize_f32_s8: y = clamp(zero_point + round(x / scale)), half away from zero, or `to_even`.
 *   x  float  rows of `width` elements
 *   y  int8
 * Computes rows [lower, upper) of y.  NaN gives -512 steps, the lower bound of the quotient.
 * Source: TensorFlow Lite, reference/quantize.h; ONNX operator specification, QuantizeLinear. */
#ifndef PENSTOCK_QUANTIZE_F32_S8_H
#define PENSTOCK_QUANTIZE_F32_S8_H

#include "fixedpoint.h"
#include "real.h"
#include "view.h"

struct quantize_f32_s8 {
    int32_t width, zero_point, to_even;
    const float *scale; /* one */
};

static inline int8_t penstock_quantize(float real, float scale, int32_t zero_point,
                                       int32_t to_even) {
    float quotient = real / scale;
    quotient = quotient > -512.0f ? quotient : -512.0f;
    quotient = quotient < 512.0f ? quotient : 512.0f;
    int32_t steps = (int32_t)quotient; /* towards zero; the remainder is exact */
    const float remainder = quotient - (float)steps;
    const int32_t stays = to_even && steps % 2 == 0; /* a half is rounded towards zero */
    const float half = stays ? 0.50000006f : 0.5f;   /* the next larger number */
    steps += (remainder >= half) - (remainder <= -half);
    return (int8_t)penstock_clamp(steps + zero_point, -128, 127);
}

PENSTOCK_KERNEL void quantize_f32_s8(const struct quantize_f32_s8 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            out[k] = penstock_quantize(penstock_get_f32(in, k), *p->scale, p->zero_point,
                                       p->to_even);
        }
    }
}

#endif
