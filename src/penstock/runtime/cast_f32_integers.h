/* cast_f32_integers: integers of real numbers, rounded towards 0.
 *   x  float  rows of `width` elements
 *   y  integers or bool
 * Numbers outside of int32, or of int64 where the output is int64, saturate; NaN gives 0.
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, micro/kernels/cast.cc. */
#ifndef PENSTOCK_CAST_F32_INTEGERS_H
#define PENSTOCK_CAST_F32_INTEGERS_H

#include "integers.h"
#include "real.h"
#include "view.h"

/* An int32, or an int64 if `wide`. */
static inline int64_t penstock_truncated(float real, int32_t wide) {
    const float limit = wide ? 9223372036854775808.0f : 2147483648.0f;
    if (real >= limit) {
        return wide ? INT64_MAX : INT32_MAX;
    }
    if (real < -limit) {
        return wide ? INT64_MIN : INT32_MIN;
    }
    return real == real ? (int64_t)real : 0;
}

struct cast_f32_integers {
    int32_t width;
    int32_t out_bytes, out_bool; /* 1, 2, 4 or 8; 0 or 1 */
};

PENSTOCK_KERNEL void cast_f32_integers(const struct cast_f32_integers *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t k = 0; k < p->width; k++) {
            const float real = penstock_get_f32(in, k);
            const int64_t element =
                p->out_bool ? real != 0.0f : penstock_truncated(real, p->out_bytes == 8);
            penstock_put_integer(out, k, p->out_bytes, element);
        }
    }
}

#endif
