/* channel_runs: copies short runs at constant distances within each row, and fills the gaps.
 *   x  row r: run k of piece p begins at byte start + p * in_piece + k * in_step
 *   y  row r: run k of piece p begins at byte         p * out_piece + k * out_step
 * With `fills`, the bytes of y outside of all runs are `fill`.  Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_CHANNEL_RUNS_H
#define PENSTOCK_CHANNEL_RUNS_H

#include "copy.h"

struct channel_runs {
    int32_t run_bytes, row_bytes, fills, fill;
    int32_t pieces, count, start;
    int32_t in_piece, in_step;
    int32_t out_piece, out_step;
};

/* Copies runs of a size that is constant in the caller. */
PENSTOCK_INLINE_KERNEL void channel_copies(int8_t *out, int32_t out_step, const int8_t *in,
                                           int32_t in_step, int32_t count, size_t bytes) {
    for (int32_t k = 0; k < count; k++) {
        memcpy(out + k * out_step, in + k * in_step, bytes);
    }
}

/* Copies the runs of a piece. */
static inline void channel_piece(const struct channel_runs *p, int8_t *out, const int8_t *in) {
    const int32_t bytes = p->run_bytes;
    const int32_t count = p->count;
    const int32_t in_step = p->in_step;
    const int32_t out_step = p->out_step;
    if (bytes == 1) {
        channel_copies(out, out_step, in, in_step, count, 1);
    } else if (bytes == 3) {
        channel_copies(out, out_step, in, in_step, count, 3);
    } else if (bytes == 8) {
        channel_copies(out, out_step, in, in_step, count, 8);
    } else {
        for (int32_t k = 0; k < count; k++, out += out_step, in += in_step) {
            penstock_copy(out, in, bytes);
        }
    }
}

PENSTOCK_KERNEL void channel_runs(const struct channel_runs *p, const penstock_source *x,
                                  const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row) + p->start;
        int8_t *out = penstock_write_row(y, row);
        if (p->fills) {
            memset(out, p->fill, (size_t)p->row_bytes);
        }
        for (int32_t piece = 0; piece < p->pieces; piece++) {
            channel_piece(p, out + piece * p->out_piece, in + piece * p->in_piece);
        }
    }
}

#endif
