/* lookup_s8: an element-wise function of one input: y = table[x + 128].
 *   x, y  int8     rows of `width` elements
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_LOOKUP_S8_H
#define PENSTOCK_LOOKUP_S8_H

#include "view.h"

struct lookup_s8 {
    int32_t width;
    const int8_t *table; /* 256 entries */
};

PENSTOCK_KERNEL void lookup_s8(const struct lookup_s8 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            out[k] = p->table[in[k] + 128];
        }
    }
}

#endif
