/* top_indices: indices of the `count` largest or smallest elements of each vector, the best first.
 *   x  rows of `width` vectors of `depth` elements  float, or integers of `bytes` bytes
 *   y  rows of `width` vectors of `count` indices  int32
 * Of equal elements, the first index comes first; NaN is below every number.
 * Computes rows [lower, upper) of y.
 * Source: ONNX operator specification, TopK. */
#ifndef PENSTOCK_TOP_INDICES_H
#define PENSTOCK_TOP_INDICES_H

#include "integers.h"
#include "real.h"
#include "view.h"
#include "wide.h"

struct top_indices {
    int32_t width, depth, count, bytes, is_real, is_signed, sign;
};

/* Whether element a is better than element b. */
static inline int32_t top_indices_better(const struct top_indices *p, const int8_t *vector,
                                         int32_t a, int32_t b) {
    if (p->is_real) {
        const float first = penstock_get_f32(vector, a) * (float)p->sign;
        const float second = penstock_get_f32(vector, b) * (float)p->sign;
        return first > second || (first == first && second != second);
    }
    const int64_t first = penstock_get_integer(vector, a, p->bytes, p->is_signed);
    const int64_t second = penstock_get_integer(vector, b, p->bytes, p->is_signed);
    return p->sign > 0 ? first > second : first < second;
}

/* Inserts each element into the best ones so far. */
static inline void top_indices_of(const struct top_indices *p, const int8_t *vector, int8_t *out) {
    for (int32_t k = 0; k < p->depth; k++) {
        int32_t place = k < p->count ? k : p->count;
        while (place > 0 &&
               top_indices_better(p, vector, k, penstock_get_s32(out, place - 1))) {
            if (place < p->count) {
                penstock_put_s32(out, place, penstock_get_s32(out, place - 1));
            }
            place--;
        }
        if (place < p->count) {
            penstock_put_s32(out, place, k);
        }
    }
}

PENSTOCK_KERNEL void top_indices(const struct top_indices *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++) {
            top_indices_of(p, in + w * p->depth * p->bytes, out + w * p->count * 4);
        }
    }
}

#endif
