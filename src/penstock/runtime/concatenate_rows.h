/* concatenate_rows: concatenates whole rows of several tensors.
 *   x[k]  counts[k] rows in each period of y; rows of row_bytes
 * y     `period` rows for each index of the axes before the concatenated one Computes rows [lower,
 * upper) of y. */
#ifndef PENSTOCK_CONCATENATE_ROWS_H
#define PENSTOCK_CONCATENATE_ROWS_H

#include "view.h"

struct concatenate_rows {
    int32_t inputs, period, row_bytes;
    const int32_t *counts;
};

PENSTOCK_KERNEL void concatenate_rows(const struct concatenate_rows *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        int32_t k = 0;
        int32_t within = row % p->period; /* input k */
        while (k < p->inputs - 1 && within >= p->counts[k]) {
            within -= p->counts[k++];
        }
        const int8_t *in = penstock_read_row(&x[k], row / p->period * p->counts[k] + within);
        memcpy(penstock_write_row(y, row), in, (size_t)p->row_bytes);
    }
}

#endif
