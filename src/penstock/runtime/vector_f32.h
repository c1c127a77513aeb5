/* vector_f32.h: the largest element of a vector of floats. */
#ifndef PENSTOCK_VECTOR_F32_H
#define PENSTOCK_VECTOR_F32_H

#include "real.h"
#include "view.h"

/* Of elements [first, first + count). */
static inline float penstock_largest(const int8_t *row, int32_t first, int32_t count) {
    float largest = penstock_get_f32(row, first);
    for (int32_t k = first + 1; k < first + count; k++) {
        const float element = penstock_get_f32(row, k);
        largest = element > largest ? element : largest;
    }
    return largest;
}

#endif
