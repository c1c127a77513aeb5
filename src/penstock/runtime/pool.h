/* pool.h: shared code of average and maximum pooling: the taps of a window inside the tensor.
 *   x  (N, H,  W,  C)  int8 or float
 *   y  (N, Ho, Wo, C)  as x */
#ifndef PENSTOCK_POOL_H
#define PENSTOCK_POOL_H

#include "loop.h"
#include "real.h"
#include "window.h"

/* Leading members of the parameter structures of pooling kernels: shapes and windows. */
#define PENSTOCK_POOL_WINDOWS                                                                     \
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;                                                \
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left

#define PENSTOCK_POOL_MEMBERS                                                                     \
    PENSTOCK_POOL_WINDOWS;                                                                        \
    int32_t least, most

/* Taps inside [0, extent): tap k is at first + k * dilation.  Without dilation, none is divided. */
static inline penstock_span penstock_pool_taps(int32_t first, int32_t taps, int32_t dilation,
                                               int32_t extent) {
    if (dilation != 1) {
        return penstock_taps_inside(first, taps, dilation, extent);
    }
    const penstock_span inside = {first < 0 ? -first : 0,
                                  extent - first < taps ? extent - first : taps};
    return inside;
}

/* For rows [lower, upper) of y, where a row index runs over N and Ho, of elements of `bytes` bytes.
 * `prepare`: statements about the taps of a window, of the spans `rows` and `columns`.  `result`, of
 * a type, is `initial`, and `accumulate` is executed for each tap, which `in` points to; `put` writes
 * element `index` of the row `out`. */
#define PENSTOCK_POOL_OF(type, bytes, prepare, initial, accumulate, put)                          \
    const int32_t step = p->dilation_w * p->in_c * (bytes);                                       \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;                            \
        const int32_t first_row = row / p->out_h * p->in_h + top;                                 \
        const penstock_span rows =                                                                \
            penstock_pool_taps(top, p->kernel_h, p->dilation_h, p->in_h);                         \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t column = 0; column < p->out_w; column++) {                                   \
            const int32_t left = column * p->stride_w - p->pad_left;                              \
            const penstock_span columns =                                                         \
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);                    \
            const int32_t before = (left + columns.lower * p->dilation_w) * p->in_c;              \
            prepare;                                                                              \
            for (int32_t c = 0; c < p->out_c; c++) {                                              \
                type result = initial;                                                            \
                for (int32_t k = rows.lower; k < rows.upper; k++) {                               \
                    const int8_t *in = penstock_read_row(x, first_row + k * p->dilation_h) +      \
                                       (before + c) * (bytes);                                    \
                    for (int32_t l = columns.lower; l < columns.upper; l++, in += step) {         \
                        accumulate;                                                               \
                    }                                                                             \
                }                                                                                 \
                const int32_t index = column * p->out_c + c;                                      \
                put;                                                                              \
            }                                                                                     \
        }                                                                                         \
    }

/* The same for floats: all channels of a tap after each other.  `result` is what `accumulate` changes
 * by an `element`, and what `pooled` is made of. */
#define PENSTOCK_POOL_F32(prepare, initial, accumulate, pooled)                                   \
    const int32_t channels = p->out_c, pixel = p->in_c * 4, step = p->dilation_w * pixel;         \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top;                            \
        const int32_t first_row = row / p->out_h * p->in_h + top;                                 \
        const penstock_span rows =                                                                \
            penstock_pool_taps(top, p->kernel_h, p->dilation_h, p->in_h);                         \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t column = 0; column < p->out_w; column++, out += channels * 4) {              \
            const int32_t left = column * p->stride_w - p->pad_left;                              \
            const penstock_span columns =                                                         \
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);                    \
            const int32_t before = (left + columns.lower * p->dilation_w) * pixel;                \
            prepare;                                                                              \
            for (int32_t c = 0; c < channels; c++) {                                              \
                penstock_put_f32(out, c, initial);                                                \
            }                                                                                     \
            for (int32_t j = rows.lower; j < rows.upper; j++) {                                   \
                const int8_t *in = penstock_read_row(x, first_row + j * p->dilation_h) + before;  \
                for (int32_t l = columns.lower; l < columns.upper; l++, in += step) {             \
                    PENSTOCK_BY_TWOS(channels, const float element = penstock_get_f32(in, k);     \
                                     float result = penstock_get_f32(out, k); accumulate;         \
                                     penstock_put_f32(out, k, result))                            \
                }                                                                                 \
            }                                                                                     \
            for (int32_t c = 0; c < channels; c++) {                                              \
                const float result = penstock_get_f32(out, c);                                    \
                penstock_put_f32(out, c, pooled);                                                 \
            }                                                                                     \
        }                                                                                         \
    }

/* The same for int8; `pooled` is the element of y, not yet clamped. */
#define PENSTOCK_POOL(prepare, initial, accumulate, pooled)                                       \
    PENSTOCK_POOL_OF(int32_t, 1, prepare, initial, accumulate,                                    \
                     out[index] = (int8_t)penstock_clamp(pooled, p->least, p->most))

#endif
