/* l2_normalization_f32: x over its Euclidean norm along the last axis, or over 1e-6 if that is larger.
 *   x, y  rows of `width` vectors of `depth` elements  float
 * Computes rows [lower, upper) of y.  Squares are rounded, and added in order of indices.
 * Source: TensorFlow Lite, reference/l2normalization.h. */
#ifndef PENSTOCK_L2_NORMALIZATION_F32_H
#define PENSTOCK_L2_NORMALIZATION_F32_H

#include "real.h"
#include "square_root.h"
#include "view.h"

struct l2_normalization_f32 {
    int32_t width, depth;
};

PENSTOCK_KERNEL void l2_normalization_f32(const struct l2_normalization_f32 *p,
                                          const penstock_source *x, const penstock_sink *y,
                                          int32_t lower, int32_t upper) {
    const int32_t depth = p->depth;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = p->width; w > 0; w--, in += depth * 4, out += depth * 4) {
            float sum = 0.0f;
            for (int32_t c = 0; c < depth; c++) {
                const float element = penstock_get_f32(in, c);
                sum += penstock_product(element, element);
            }
            const float root = penstock_square_root(sum);
            const float norm = root < 1e-6f ? 1e-6f : root; /* NaN stays */
            for (int32_t c = 0; c < depth; c++) {
                penstock_put_f32(out, c, penstock_get_f32(in, c) / norm);
            }
        }
    }
}

#endif
