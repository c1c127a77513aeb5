/* add_s8_thumb: an element-wise weighted sum of two tensors and a shift.
 *   a, b, y  int8, of one shape
 * Computes rows [lower, upper) of y; y may have the address of a or b. */
#ifndef PENSTOCK_ADD_S8_THUMB_H
#define PENSTOCK_ADD_S8_THUMB_H

#include "fixedpoint.h"
#include "view.h"

struct add_s8_thumb {
    int32_t row_elements, left, right, offset, shift, least, most;
};

PENSTOCK_INLINE_KERNEL void add_s8_thumb(const struct add_s8_thumb *p, const penstock_source *x,
                                         const penstock_sink *y, int32_t lower, int32_t upper) {
    const struct add_s8_thumb q = *p;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *a = penstock_read_row(&x[0], row);
        const int8_t *b = penstock_read_row(&x[1], row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t i = 0; i < q.row_elements; i++) {
            const int32_t sum = (a[i] * q.left + b[i] * q.right + q.offset) >> q.shift;
            out[i] = (int8_t)penstock_clamp(sum, q.least, q.most);
        }
    }
}

#endif
