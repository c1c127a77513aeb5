/* lstm_hidden_s16: the hidden state in rows that lstm_s8 computes.
 *   x  (1, T, B, 2 * U)  int16    row t: cell state, then hidden state after step t
 *   y  (1, T, B, U)      int8
 * Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_LSTM_HIDDEN_S16_H
#define PENSTOCK_LSTM_HIDDEN_S16_H

#include "view.h"
#include "wide.h"

struct lstm_hidden_s16 {
    int32_t batch, units;
};

PENSTOCK_KERNEL void lstm_hidden_s16(const struct lstm_hidden_s16 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t b = 0; b < p->batch; b++) {
            for (int32_t u = 0; u < p->units; u++) {
                out[b * p->units + u] =
                    (int8_t)penstock_get_s16(in, (2 * b + 1) * p->units + u);
            }
        }
    }
}

#endif
