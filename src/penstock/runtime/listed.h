/* listed: elements at listed indices along rows, columns and channels; -1 means a fill byte.
 *   x  (rows, columns, in_c)   elements of element_bytes
 *   y  (rows, out_w,   out_c)  y[r][w][c] = x[rows[r]][columns[w]][channels[c]]
 * Implements gathering, tiling, mirror padding and nearest-neighbour resizing.
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_LISTED_H
#define PENSTOCK_LISTED_H

#include "view.h"

struct listed {
    int32_t element_bytes, fill, out_w, out_c, in_c;
    const int32_t *rows, *columns, *channels;
};

PENSTOCK_KERNEL void listed(const struct listed *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        const int8_t *in = p->rows[row] < 0 ? NULL : penstock_read_row(x, p->rows[row]);
        for (int32_t w = 0; w < p->out_w; w++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                if (!in || p->columns[w] < 0 || p->channels[c] < 0) {
                    memset(out, p->fill, (size_t)p->element_bytes);
                } else {
                    const int32_t element = p->columns[w] * p->in_c + p->channels[c];
                    memcpy(out, in + element * p->element_bytes, (size_t)p->element_bytes);
                }
                out += p->element_bytes;
            }
        }
    }
}

#endif
