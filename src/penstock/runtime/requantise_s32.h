/* requantise_s32: sums, requantised and clamped.
 *   x  (.., C)  int32
 *   y  (.., C)  int8     row r from row first_row + r of x
 * Source: TensorFlow Lite; see fixedpoint.h. */
#ifndef PENSTOCK_REQUANTISE_S32_H
#define PENSTOCK_REQUANTISE_S32_H

#include "certified.h"
#include "view.h"
#include "wide.h"

struct requantise_s32 {
    int32_t first_row, width, channels, out_zero, least, most;
    int32_t single_rounding; /* 1: single rounding, as in newer LiteRT */
    const int32_t *multiplier; /* one per channel, as shift */
    const int8_t *shift;
    const int32_t *forms; /* replaces both if not NULL; see certified.h */
};

PENSTOCK_KERNEL void requantise_s32(const struct requantise_s32 *p,
                                         const penstock_source *x, const penstock_sink *y,
                                         int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, p->first_row + row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++) {
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t at = w * p->channels + c;
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
