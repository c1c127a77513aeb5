/* vector_s8.h: what kernels of vectors of int8 share. */
#ifndef PENSTOCK_VECTOR_S8_H
#define PENSTOCK_VECTOR_S8_H

#include <stdint.h>

/* The largest of `largest` and `count` elements. */
static inline int32_t penstock_largest_s8(const int8_t *in, int32_t count, int32_t largest) {
    for (int32_t c = 0; c < count; c++) {
        largest = in[c] > largest ? in[c] : largest;
    }
    return largest;
}

#endif
