/* resample_s8: rows and columns that are weighted sums of adjacent ones, requantised.
 *   x  (N, in_h,  in_w,  channels)  int8
 *   y  (N, out_h, out_w, channels)  int8
 * Weights have 11 fraction bits.  Computes rows [lower, upper) of y.
 * Source: ONNX operator specification, Resize (linear, cubic). */
#ifndef PENSTOCK_RESAMPLE_S8_H
#define PENSTOCK_RESAMPLE_S8_H

#include "fixedpoint.h"
#include "view.h"

struct resample_s8 {
    int32_t in_h, channels, out_h, out_w;
    int32_t taps_h, taps_w;
    int32_t in_zero, multiplier, shift, out_zero;
    const int32_t *first_h, *first_w;     /* by output index: the first input index */
    const int16_t *weights_h, *weights_w; /* by output index: one for each tap */
};

/* Weighted sum of channel `c` of the inputs of output (row, column). */
static inline int32_t resample_s8_sum(const struct resample_s8 *p, const penstock_source *x,
                                      int32_t row, int32_t column, int32_t c) {
    const int32_t h = row % p->out_h;
    const int32_t first = row / p->out_h * p->in_h + p->first_h[h];
    int32_t total = 0;
    for (int32_t k = 0; k < p->taps_h; k++) {
        const int8_t *in = penstock_read_row(x, first + k) + p->first_w[column] * p->channels;
        int32_t sum = 0;
        for (int32_t l = 0; l < p->taps_w; l++) {
            sum += (in[l * p->channels + c] - p->in_zero) * p->weights_w[column * p->taps_w + l];
        }
        total += sum * p->weights_h[h * p->taps_h + k];
    }
    return total;
}

PENSTOCK_KERNEL void resample_s8(const struct resample_s8 *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t total = resample_s8_sum(p, x, row, column, c);
                const int32_t scaled = penstock_multiply(total, p->multiplier, p->shift);
                *out++ = (int8_t)penstock_clamp(scaled + p->out_zero, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
