/* running.h: kernels that go through the rows of x and keep what they found.
 *   x  (1, H,    W,  C)  int8
 *   y  (1, rows, Wo, C)  row r: of rows 0 .. r of x
 * Such a kernel computes rows [lower, upper) of y, each from the row of x of its number and from the
 * row of y before it, which may lie in the same place. */
#ifndef PENSTOCK_RUNNING_H
#define PENSTOCK_RUNNING_H

#include "pool.h"
#include "wide.h"

/* Members that parameter structures of windows along columns begin with. */
#define PENSTOCK_COLUMN_MEMBERS int32_t in_w, in_c, out_w, kernel_w, stride_w, pad_left

/* The row of y before a row, or NULL. */
static inline const int8_t *penstock_row_before(const penstock_sink *y, int32_t row) {
    return row > 0 ? penstock_write_row(y, row - 1) : NULL;
}

#endif
