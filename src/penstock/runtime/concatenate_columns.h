/* concatenate_columns: concatenates several tensors within rows.
 *   x[k]  rows of `pieces` pieces of sizes[k] bytes
 * y     rows of `pieces` groups: one piece of every input Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_CONCATENATE_COLUMNS_H
#define PENSTOCK_CONCATENATE_COLUMNS_H

#include "copy.h"

struct concatenate_columns {
    int32_t inputs, pieces;
    const int32_t *sizes;
};

PENSTOCK_KERNEL void concatenate_columns(const struct concatenate_columns *p,
                                         const penstock_source *x, const penstock_sink *y,
                                         int32_t lower, int32_t upper) {
    int32_t group = 0; /* bytes of one piece of every input */
    for (int32_t k = 0; k < p->inputs; k++) {
        group += p->sizes[k];
    }
    const int32_t pieces = p->pieces;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *first = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->inputs; k++) {
            const int32_t size = p->sizes[k];
            const int8_t *in = penstock_read_row(&x[k], row);
            int8_t *out = first;
            for (int32_t piece = 0; piece < pieces; piece++, in += size, out += group) {
                penstock_copy(out, in, size);
            }
            first += size;
        }
    }
}

#endif
