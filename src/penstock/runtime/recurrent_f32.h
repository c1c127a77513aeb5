/* recurrent_f32.h: what recurrent layers on floats share.  Their inputs are the products of the
 * inputs of all steps with weights, gate by gate. */
#ifndef PENSTOCK_RECURRENT_F32_H
#define PENSTOCK_RECURRENT_F32_H

#include "products_f32.h"
#include "running.h"
#include "sigmoid_f32.h"

/* Puts the products of a vector of floats with `count` rows of weights of `bytes` bytes, in groups
 * of four, to `sums`, which has room for a multiple of four. */
static inline void penstock_put_products_f32(const int8_t *x, const void *weights, int32_t bytes,
                                             int32_t depth, int32_t count, int8_t *sums) {
    const int8_t *four_rows = weights;
    for (int32_t o = 0; o < count; o += 4, four_rows += depth * 4 * bytes) {
        float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        penstock_add_products_f32(x, four_rows, bytes, depth, four);
        for (int32_t k = 0; k < 4; k++) {
            penstock_put_f32(sums, o + k, four[k]);
        }
    }
}

#endif
