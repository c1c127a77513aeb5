/* requantise_last_s32: the last row of accumulators, requantised and clamped.
 *   x  (1, H, W, C)  int32
 *   y  (1, 1, W, C)  int8
 * Source: TensorFlow Lite; see fixedpoint.h. */
#ifndef PENSTOCK_REQUANTISE_LAST_S32_H
#define PENSTOCK_REQUANTISE_LAST_S32_H

#include "certified.h"
#include "view.h"
#include "wide.h"

struct requantise_last_s32 {
    int32_t in_h, in_w, in_c, out_zero, least, most;
    int32_t single_rounding; /* 1: single rounding, as in newer LiteRT */
    const int32_t *multiplier; /* one per channel, as shift */
    const int8_t *shift;
    const int32_t *forms; /* replaces both if not NULL; see certified.h */
};

PENSTOCK_KERNEL void requantise_last_s32(const struct requantise_last_s32 *p,
                                         const penstock_source *x, const penstock_sink *y,
                                         int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, p->in_h - 1);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->in_w; w++) {
            for (int32_t c = 0; c < p->in_c; c++) {
                const int32_t at = w * p->in_c + c;
                int32_t sum = penstock_get_s32(in, at);
                sum = p->forms ? penstock_certified(sum, p->forms + 6 * c)
                               : penstock_multiply_rounded(sum, p->multiplier[c], p->shift[c],
                                                           p->single_rounding) + p->out_zero;
                out[at] = (int8_t)penstock_clamp(sum, p->least, p->most);
            }
        }
    }
}

#endif
