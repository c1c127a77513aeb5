/* listed: elements at listed indices along rows, columns and channels; -1 means a fill byte.
 *   x  (rows, columns, in_c)   elements of element_bytes
 *   y  (rows, out_w,   out_c)  y[r][w][c] = x[rows[r]][columns[w]][channels[c]]
 * Implements gathering, tiling, mirror padding and nearest-neighbour resizing.
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_LISTED_H
#define PENSTOCK_LISTED_H

#include "copy.h"

struct listed {
    int32_t element_bytes, fill, out_w, out_c, in_c;
    const int32_t *rows, *columns, *channels;
};

PENSTOCK_KERNEL void listed(const struct listed *p, const penstock_source *x,
                            const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t bytes = p->element_bytes, in_pixel = p->in_c * bytes, fill = p->fill;
    const int32_t pixel = p->out_c * bytes;
    const int32_t *columns = p->columns, *end = columns + p->out_w;
    const int32_t *channels = p->channels, *last = channels + p->out_c;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        const int32_t from_row = p->rows[row];
        if (from_row < 0) {
            memset(out, fill, (size_t)(p->out_w * pixel));
            continue;
        }
        const int8_t *in = penstock_read_row(x, from_row);
        const int32_t *column = columns; /* tests before the first one would take long */
        do {
            if (*column < 0) {
                memset(out, fill, (size_t)pixel);
                out += pixel;
                continue;
            }
            const int8_t *from = in + *column * in_pixel;
            const int32_t *channel = channels;
            do {
                if (*channel < 0) {
                    memset(out, fill, (size_t)bytes);
                } else {
                    penstock_copy_element(out, from + *channel * bytes, bytes);
                }
                out += bytes;
            } while (++channel < last);
        } while (++column < end);
    }
}

#endif
