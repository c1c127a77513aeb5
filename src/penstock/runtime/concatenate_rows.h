/* concatenate_rows: concatenates whole rows of several tensors.
 *   x[k]  counts[k] rows in each period of y; rows of row_bytes
 * y     `period` rows for each index of the axes before the concatenated one Computes rows [lower,
 * upper) of y. */
#ifndef PENSTOCK_CONCATENATE_ROWS_H
#define PENSTOCK_CONCATENATE_ROWS_H

#include "copy.h"
#include "loop.h"

struct concatenate_rows {
    int32_t inputs, period, row_bytes;
    const int32_t *counts;
};

PENSTOCK_KERNEL void concatenate_rows(const struct concatenate_rows *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t bytes = p->row_bytes;
    int32_t outer = lower / p->period, within = lower % p->period, k = 0;
    for (int32_t row = lower; row < upper; k++) {
        if (k == p->inputs) {
            outer++;
            k = 0;
        }
        const int32_t count = p->counts[k];
        const int32_t run = penstock_min(count - within, upper - row); /* rows of input k */
        if (run <= 0) {
            within -= count;
            continue;
        }
        const penstock_source *from = &x[k];
        const int32_t first = outer * count + within;
        within = 0;
        if (from->pitch == bytes && first + run <= from->ring && y->pitch == bytes &&
            row + run <= y->ring) { /* one run of bytes */
            penstock_copy(penstock_write_row(y, row), penstock_read_row(from, first), run * bytes);
        } else {
            for (int32_t r = 0; r < run; r++) {
                penstock_copy(penstock_write_row(y, row + r), penstock_read_row(from, first + r),
                              bytes);
            }
        }
        row += run;
    }
}

#endif
