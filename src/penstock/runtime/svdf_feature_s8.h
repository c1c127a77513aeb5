/* svdf_feature_s8: one time step of an SVDF, a weighted sum of the inputs per filter.
 *   x  (1, I)        int8             w  (F, I)  int8
 *   y  (1, 1, 1, F)  int8 or int16    by `element_bytes`
 * The zero point is added after the clamp; the sum keeps its lowest bits.
 * Computes rows [lower, upper) of y, which has one.
 * Source: TensorFlow Lite Micro, micro/kernels/svdf_common.cc. */
#ifndef PENSTOCK_SVDF_FEATURE_S8_H
#define PENSTOCK_SVDF_FEATURE_S8_H

#include "fixedpoint.h"
#include "view.h"
#include "wide.h"

struct svdf_feature_s8 {
    int32_t in_c, out_c, in_zero, out_zero, multiplier, shift, element_bytes;
    const int8_t *weights;
};

PENSTOCK_KERNEL void svdf_feature_s8(const struct svdf_feature_s8 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t f = 0; f < p->out_c; f++) {
            const int8_t *w = p->weights + f * p->in_c;
            int32_t sum = 0;
            for (int32_t c = 0; c < p->in_c; c++) {
                sum += (in[c] - p->in_zero) * w[c];
            }
            sum = penstock_multiply(sum, p->multiplier, p->shift);
            if (p->element_bytes == 1) {
                out[f] = (int8_t)(penstock_clamp(sum, INT8_MIN, INT8_MAX) + p->out_zero);
            } else {
                penstock_put_s16(out, f, penstock_clamp(sum, INT16_MIN, INT16_MAX) + p->out_zero);
            }
        }
    }
}

#endif
