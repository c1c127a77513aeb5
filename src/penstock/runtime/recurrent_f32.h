/* recurrent_f32.h: what recurrent layers on floats share.  Their inputs are the products of the
 * inputs of all steps with weights, gate by gate. */
#ifndef PENSTOCK_RECURRENT_F32_H
#define PENSTOCK_RECURRENT_F32_H

#include "products_f32.h"
#include "running.h"
#include "sigmoid_f32.h"

/* Puts the products of a vector of floats with `count` rows of weights, in groups of four, to
 * `sums`, which has room for a multiple of four. */
static inline void penstock_put_products_f32(const int8_t *x, const float *weights, int32_t depth,
                                             int32_t count, int8_t *sums) {
    for (int32_t o = 0; o < count; o += 4, weights += depth * 4) {
        float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        penstock_add_products_f32(x, (const int8_t *)(const void *)weights, 4, depth, four);
        for (int32_t k = 0; k < 4; k++) {
            penstock_put_f32(sums, o + k, four[k]);
        }
    }
}

#endif
