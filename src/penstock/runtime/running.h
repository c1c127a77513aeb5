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

#endif
