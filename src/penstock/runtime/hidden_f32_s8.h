/* hidden_f32_s8: the hidden state, quantised, in rows of a recurrent layer on real numbers.
 *   x  (1, T, B, C)  float   row t: states after step t, the hidden state last
 *   y  (1, T, B, U)  int8    zero_point + x / scale, rounded half to even
 * Computes rows [lower, upper) of y.  NaN gives -512 steps, the lower bound of the quotient.
 * Source: ONNX operator specification, QuantizeLinear. */
#ifndef PENSTOCK_HIDDEN_F32_S8_H
#define PENSTOCK_HIDDEN_F32_S8_H

#include "fixedpoint.h"
#include "real.h"
#include "view.h"

struct hidden_f32_s8 {
    int32_t batch, in_c, units, zero_point;
    const float *scale; /* one */
};

static inline int8_t penstock_quantize_to_even(float real, float scale, int32_t zero_point) {
    float quotient = real / scale;
    quotient = quotient > -512.0f ? quotient : -512.0f;
    quotient = quotient < 512.0f ? quotient : 512.0f;
    int32_t steps = (int32_t)quotient; /* towards zero; the remainder is exact */
    const float remainder = quotient - (float)steps;
    const int32_t odd = steps % 2 != 0;
    steps += (remainder > 0.5f) - (remainder < -0.5f);
    steps += odd && remainder == 0.5f;
    steps -= odd && remainder == -0.5f;
    return (int8_t)penstock_clamp(steps + zero_point, -128, 127);
}

PENSTOCK_KERNEL void hidden_f32_s8(const struct hidden_f32_s8 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            const int32_t first = (b + 1) * p->in_c - p->units;
            for (int32_t u = 0; u < p->units; u++) {
                out[b * p->units + u] = penstock_quantize_to_even(penstock_get_f32(in, first + u),
                                                                  *p->scale, p->zero_point);
            }
        }
    }
}

#endif
