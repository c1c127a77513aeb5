/* fully_connected_f32: matrix times vector of floats, with bias and clamp.
 *   x  (B, I)                     float     w  (1, ceil(O / 4), I, 4)  float   or int8; four outputs together
 *   y  (B, O)                     float     b  (O)                     float
 * Computes rows [lower, upper) of y, of `width` vectors each, or if `is_whole` all vectors, those of a
 * single row.
 * Source: TensorFlow Lite, reference/fully_connected.h. */
#ifndef PENSTOCK_FULLY_CONNECTED_F32_H
#define PENSTOCK_FULLY_CONNECTED_F32_H

#include "products_f32.h"
#include "view.h"

struct fully_connected_f32 {
    int32_t width, in_c, out_c, is_whole, weight_bytes;
    const void *weights;
    const float *bias;
    const float *bounds; /* least and largest result */
};

/* Of `width` vectors. */
static inline void fully_connected_f32_row(const struct fully_connected_f32 *p, const int8_t *in,
                                           int8_t *out) {
    for (int32_t k = 0; k < p->width; k++, in += p->in_c * 4, out += p->out_c * 4) {
        const int8_t *w = p->weights;
        for (int32_t o = 0; o < p->out_c; o += 4, w += p->in_c * 4 * p->weight_bytes) {
            float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            penstock_add_products_f32(in, w, p->weight_bytes, p->in_c, sums);
            penstock_put_sums(out, o, p->out_c, sums, p->bias, p->bounds);
        }
    }
}

PENSTOCK_KERNEL void fully_connected_f32(const struct fully_connected_f32 *p,
                                         const penstock_source *x, const penstock_sink *y,
                                         int32_t lower, int32_t upper) {
    if (p->is_whole) {
        fully_connected_f32_row(p, x->base, y->base);
        return;
    }
    for (int32_t row = lower; row < upper; row++) {
        fully_connected_f32_row(p, penstock_read_row(x, row), penstock_write_row(y, row));
    }
}

#endif
