/* log_softmax_f32: x - log(sum(exp(x))) along the last axis.
 *   x, y  rows of `width` vectors of `depth` elements  float
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/log_softmax.h. */
#ifndef PENSTOCK_LOG_SOFTMAX_F32_H
#define PENSTOCK_LOG_SOFTMAX_F32_H

#include "exponential.h"
#include "logarithm.h"
#include "vector_f32.h"

struct log_softmax_f32 {
    int32_t width, depth;
};

PENSTOCK_KERNEL void log_softmax_f32(const struct log_softmax_f32 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width * p->depth; w += p->depth) {
            const float largest = penstock_largest(in, w, p->depth);
            float sum = 0.0f;
            for (int32_t c = w; c < w + p->depth; c++) {
                sum += penstock_exp(penstock_get_f32(in, c) - largest);
            }
            const float log_of_sum = penstock_log(sum);
            for (int32_t c = w; c < w + p->depth; c++) {
                penstock_put_f32(out, c, penstock_get_f32(in, c) - largest - log_of_sum);
            }
        }
    }
}

#endif
