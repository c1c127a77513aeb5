/* average_last_s32: the last row of sums divided by counts, rounded half away from zero, and
 * clamped.
 *   x  (1, H, W, C)  int32
 *   y  (1, 1, W, C)  int8
 * Source: TensorFlow Lite, reference/integer_ops/pooling.h. */
#ifndef PENSTOCK_AVERAGE_LAST_S32_H
#define PENSTOCK_AVERAGE_LAST_S32_H

#include "fixedpoint.h"
#include "view.h"
#include "wide.h"

struct average_last_s32 {
    int32_t in_h, in_w, in_c, least, most;
    const int32_t *counts; /* one per column */
};

PENSTOCK_KERNEL void average_last_s32(const struct average_last_s32 *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, p->in_h - 1);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->in_w; w++) {
            const int32_t count = p->counts[w];
            for (int32_t c = 0; c < p->in_c; c++) {
                const int32_t at = w * p->in_c + c;
                int32_t sum = penstock_get_s32(in, at);
                sum = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
                out[at] = (int8_t)penstock_clamp(sum, p->least, p->most);
            }
        }
    }
}

#endif
