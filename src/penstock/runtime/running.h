/* running.h: kernels that accumulate over the rows of x.
 *   x  (1, H,    W,  C)  int8
 *   y  (1, rows, Wo, C)  row r accumulates rows 0 .. r of x
 * Such a kernel computes rows [lower, upper) of y, row r from row r of x and row r - 1 of y, which
 * may have the same address. */
#ifndef PENSTOCK_RUNNING_H
#define PENSTOCK_RUNNING_H

#include "pool.h"
#include "wide.h"

/* Leading members of the parameter structures of windows along columns. */
#define PENSTOCK_COLUMN_MEMBERS int32_t in_w, in_c, out_w, kernel_w, stride_w, dilation_w, pad_left

/* The preceding row of y, or NULL for the first. */
static inline const int8_t *penstock_row_before(const penstock_sink *y, int32_t row) {
    return row > 0 ? penstock_write_row(y, row - 1) : NULL;
}

/* For each element of rows [lower, upper) of y, element `at` of row `out`: `result` is
 * `continued`, an expression of the row `before`, or `initial` in the first row.  `step` is
 * executed for each tap, which `tap` points to; then `write`. */
#define PENSTOCK_ACCUMULATE_ROWS(initial, continued, step, write)                                 \
    const int32_t stride = p->dilation_w * p->in_c;                                               \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int8_t *in = penstock_read_row(x, row);                                             \
        const int8_t *before = penstock_row_before(y, row);                                       \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t column = 0; column < p->out_w; column++) {                                   \
            const int32_t left = column * p->stride_w - p->pad_left;                              \
            const penstock_span columns =                                                         \
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);                    \
            const int8_t *first = in + (left + columns.lower * p->dilation_w) * p->in_c;          \
            for (int32_t c = 0; c < p->in_c; c++) {                                               \
                const int32_t at = column * p->in_c + c;                                          \
                int32_t result = before ? continued : initial;                                    \
                const int8_t *tap = first + c;                                                    \
                for (int32_t l = columns.lower; l < columns.upper; l++, tap += stride) {          \
                    step;                                                                         \
                }                                                                                 \
                write;                                                                            \
            }                                                                                     \
        }                                                                                         \
    }

#endif
