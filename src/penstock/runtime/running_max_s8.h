/* running_max_s8: running maximum over rows, in windows along columns, clamped.
 *   x  (1, H,    W,  C)  int8
 *   y  (1, rows, Wo, C)  int8
 * Computes rows [lower, upper) of y, continuing from row lower - 1 of y. */
#ifndef PENSTOCK_RUNNING_MAX_S8_H
#define PENSTOCK_RUNNING_MAX_S8_H

#include "fixedpoint.h"
#include "running.h"

struct running_max_s8 {
    PENSTOCK_COLUMN_MEMBERS;
    int32_t least, most;
};

PENSTOCK_KERNEL void running_max_s8(const struct running_max_s8 *p, const penstock_source *x,
                                    const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t step = p->dilation_w * p->in_c;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        const int8_t *before = penstock_row_before(y, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const penstock_span columns =
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);
            const int8_t *first = in + (left + columns.lower * p->dilation_w) * p->in_c;
            for (int32_t c = 0; c < p->in_c; c++) {
                const int32_t at = column * p->in_c + c;
                int32_t largest = before ? before[at] : INT8_MIN;
                const int8_t *tap = first + c;
                for (int32_t l = columns.lower; l < columns.upper; l++, tap += step) {
                    largest = *tap > largest ? *tap : largest;
                }
                out[at] = (int8_t)penstock_clamp(largest, p->least, p->most);
            }
        }
    }
}

#endif
