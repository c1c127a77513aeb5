/* average_pool2d_s8: the mean of a sliding window without padding elements.
 * Computes rows [lower, upper) of y, where a row index runs over N and Ho.
 * Source: TensorFlow Lite, reference/integer_ops/pooling.h. */
#ifndef PENSTOCK_AVERAGE_POOL2D_S8_H
#define PENSTOCK_AVERAGE_POOL2D_S8_H

#include "fixedpoint.h"
#include "pool.h"

/* The largest count whose reciprocal is exact: sums are at most 128 * count + count / 2, and sum *
 * count must stay below 2^24. */
#define PENSTOCK_RECIPROCAL_COUNT 361

struct average_pool2d_s8 {
    PENSTOCK_POOL_MEMBERS;
};

/* sum / count for a sum of `count` bytes, rounded half up; `reciprocal`: floor(2^24 / count) + 1,
 * or 0 if the count is too large for it. */
static inline int32_t average_pool2d_s8_mean(uint32_t sum, uint32_t count, uint32_t reciprocal) {
    const uint32_t rounded = sum + count / 2;
    return (int32_t)(reciprocal ? rounded * reciprocal >> 24 : rounded / count);
}

PENSTOCK_KERNEL void average_pool2d_s8(const struct average_pool2d_s8 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
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
            const uint32_t count =
                (uint32_t)((rows.upper - rows.lower) * (columns.upper - columns.lower));
            const uint32_t reciprocal =
                count <= PENSTOCK_RECIPROCAL_COUNT ? (1u << 24) / count + 1 : 0;
            for (int32_t c = 0; c < p->out_c; c++) {
                int32_t sum = 0;
                for (int32_t k = rows.lower; k < rows.upper; k++) {
                    const int8_t *in =
                        penstock_read_row(x, first_row + k * p->dilation_h) + before + c;
                    for (int32_t l = columns.lower; l < columns.upper; l++, in += step) {
                        sum += *in;
                    }
                }
                const int32_t mean =
                    sum < 0 ? -average_pool2d_s8_mean((uint32_t)-sum, count, reciprocal)
                            : average_pool2d_s8_mean((uint32_t)sum, count, reciprocal);
                out[column * p->out_c + c] = (int8_t)penstock_clamp(mean, p->least, p->most);
            }
        }
    }
}

#endif
