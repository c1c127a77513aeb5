/* rearrange: permutes elements: transposition, space to depth or batch, and the inverses.
 *   y  a row index runs over `outer` extents; a row is three loops around runs of run_bytes.
 *   x  each step of a loop advances by a number of rows and of bytes within the row.
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_REARRANGE_H
#define PENSTOCK_REARRANGE_H

#include "copy.h"

struct rearrange {
    int32_t run_bytes, outer;
    int32_t extent0, rows0, bytes0;
    int32_t extent1, rows1, bytes1;
    int32_t extent2, rows2, bytes2;
    const int32_t *extents, *rows, *bytes; /* of the outer loops */
};

PENSTOCK_KERNEL void rearrange(const struct rearrange *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        int32_t in_row = 0;
        int32_t offset = 0;
        int32_t rest = row;
        for (int32_t k = p->outer - 1; k >= 0; k--) {
            in_row += rest % p->extents[k] * p->rows[k];
            offset += rest % p->extents[k] * p->bytes[k];
            rest /= p->extents[k];
        }
        for (int32_t i = 0; i < p->extent0; i++) {
            for (int32_t j = 0; j < p->extent1; j++) {
                if (p->rows2 == 0 && p->run_bytes == 4) { /* words of one row */
                    const int8_t *in = penstock_read_row(x, in_row + i * p->rows0 + j * p->rows1);
                    in += offset + i * p->bytes0 + j * p->bytes1;
                    const int32_t step = p->bytes2;
                    for (int32_t k = p->extent2; k > 0; k--, in += step, out += 4) {
                        memcpy(out, in, 4);
                    }
                    continue;
                }
                for (int32_t k = 0; k < p->extent2; k++) {
                    const int32_t source = in_row + i * p->rows0 + j * p->rows1 + k * p->rows2;
                    const int8_t *in = penstock_read_row(x, source) + offset;
                    in += i * p->bytes0 + j * p->bytes1 + k * p->bytes2;
                    penstock_copy(out, in, p->run_bytes);
                    out += p->run_bytes;
                }
            }
        }
    }
}

#endif
