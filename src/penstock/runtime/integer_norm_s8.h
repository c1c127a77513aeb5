/* integer_norm_s8: vectors along the last axis over their standard deviation, or over the root of
 * their mean square:
 *     y = (d * weight / root(mean of d * d, plus 1) + bias) >> shift,   d = x - mean or x
 * Means and quotients are rounded towards 0, the root down.
 *   x, y  rows of `width` vectors of `depth` elements  int8
 * Computes rows [lower, upper) of y.
 * Source: Deeploy, iLayerNorm and iRMSNorm. */
#ifndef PENSTOCK_INTEGER_NORM_S8_H
#define PENSTOCK_INTEGER_NORM_S8_H

#include "fixedpoint.h"
#include "square_root.h"
#include "view.h"

struct integer_norm_s8 {
    int32_t width, depth, in_zero, out_zero, centred, shift;
    const int32_t *weights, *bias; /* one per element of a vector */
};

static inline void integer_norm_s8_vector(const struct integer_norm_s8 *p, const int8_t *in,
                                          int8_t *out) {
    int32_t total = 0, squares = 0;
    for (int32_t c = 0; c < p->depth; c++) {
        total += in[c] - p->in_zero;
    }
    const int32_t origin = p->in_zero + (p->centred ? total / p->depth : 0);
    for (int32_t c = 0; c < p->depth; c++) {
        squares += (in[c] - origin) * (in[c] - origin);
    }
    const int32_t root = (int32_t)penstock_integer_root((uint64_t)(squares / p->depth + 1));
    for (int32_t c = 0; c < p->depth; c++) {
        const int64_t quotient = (int64_t)(in[c] - origin) * p->weights[c] / root + p->bias[c];
        int64_t found = (quotient >> p->shift) + p->out_zero;
        found = found < INT8_MIN ? INT8_MIN : (found > INT8_MAX ? INT8_MAX : found);
        out[c] = (int8_t)found;
    }
}

PENSTOCK_KERNEL void integer_norm_s8(const struct integer_norm_s8 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++) {
            integer_norm_s8_vector(p, in + w * p->depth, out + w * p->depth);
        }
    }
}

#endif
