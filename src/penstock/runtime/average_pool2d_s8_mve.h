/* average_pool2d_s8_mve: the mean of a sliding window without padding elements, for cores with
 * MVE.  The channels are a multiple of eight; sums of a window fit 16 bits.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho. */
#ifndef PENSTOCK_AVERAGE_POOL2D_S8_MVE_H
#define PENSTOCK_AVERAGE_POOL2D_S8_MVE_H

#include "fixedpoint.h"
#include "mve.h"
#include "pool.h"

struct average_pool2d_s8_mve {
    PENSTOCK_POOL_MEMBERS;
};

/* Adds eight channels of `count` pixels, `step` bytes apart, to the sums. */
static inline void average_pool2d_s8_mve_add(const int8_t *x, int32_t step, int32_t count,
                                             int16_t *sums) {
#if PENSTOCK_HAS_MVE
    __asm__ volatile("vldrh.16 q0,[%[sums]]\n"
                     "wls lr,%[count],2f\n"
                     "1: vldrb.s16 q1,[%[x]]\n"
                     "add %[x],%[step]\n"
                     "vadd.i16 q0,q0,q1\n"
                     "le lr,1b\n"
                     "2: vstrh.16 q0,[%[sums]]\n"
                     : [x] "+l"(x)
                     : [step] "r"(step), [count] "r"(count), [sums] "r"(sums)
                     : "q0", "q1", "lr", "memory");
#else
    for (; count > 0; count--, x += step) {
        for (int32_t c = 0; c < 8; c++) {
            sums[c] = (int16_t)(sums[c] + x[c]);
        }
    }
#endif
}

PENSTOCK_KERNEL void average_pool2d_s8_mve(const struct average_pool2d_s8_mve *p,
                                           const penstock_source *x, const penstock_sink *y,
                                           int32_t lower, int32_t upper) {
    const int32_t step = p->dilation_w * p->in_c;
    for (int32_t row = lower; row < upper; row++) {
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top; /* within its image */
        const int32_t first_row = row / p->out_h * p->in_h + top;
        const penstock_span rows =
            penstock_pool_taps(top, p->kernel_h, p->dilation_h, p->in_h);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const penstock_span columns =
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);
            const int32_t before = (left + columns.lower * p->dilation_w) * p->in_c;
            const int32_t width = columns.upper - columns.lower;
            const int32_t count = (rows.upper - rows.lower) * width;
            for (int32_t c = 0; c < p->out_c; c += 8, out += 8) {
                int16_t sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
                for (int32_t k = rows.lower; k < rows.upper; k++) {
                    const int8_t *in = penstock_read_row(x, first_row + k * p->dilation_h);
                    average_pool2d_s8_mve_add(in + before + c, step, width, sums);
                }
                for (int32_t i = 0; i < 8; i++) {
                    const int32_t half = sums[i] > 0 ? count / 2 : -(count / 2);
                    out[i] = (int8_t)penstock_clamp((sums[i] + half) / count, p->least, p->most);
                }
            }
        }
    }
}

#endif
