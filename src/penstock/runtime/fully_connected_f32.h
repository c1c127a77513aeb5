/* fully_connected_f32: matrix times vector of floats, with bias and clamp.
 *   x  (B, I)                     float     w  (1, ceil(O / 4), I, 4)  float   or int8; four outputs together
 *   y  (B, O)                     float     b  (O)                     float
 * Source: TensorFlow Lite, reference/fully_connected.h. */
#ifndef PENSTOCK_FULLY_CONNECTED_F32_H
#define PENSTOCK_FULLY_CONNECTED_F32_H

#include "products_f32.h"
#include "view.h"

struct fully_connected_f32 {
    int32_t batches, in_c, out_c, weight_bytes;
    const void *weights;
    const float *bias;
    const float *bounds; /* least and largest result */
};

PENSTOCK_KERNEL void fully_connected_f32(const struct fully_connected_f32 *p,
                                         const penstock_source *x, const penstock_sink *y,
                                         int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c * 4;
        int8_t *out = y->base + batch * p->out_c * 4;
        const int8_t *w = p->weights;
        for (int32_t o = 0; o < p->out_c; o += 4, w += p->in_c * 4 * p->weight_bytes) {
            float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            penstock_add_products_f32(in, w, p->weight_bytes, p->in_c, sums);
            penstock_put_sums(out, o, p->out_c, sums, p->bias, p->bounds);
        }
    }
}

#endif
