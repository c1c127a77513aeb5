/* l2_normalization_s8: each vector along the last axis divided by its Euclidean norm.
 *   x, y  rows of `width` vectors of `depth` elements  int8     y has scale 1/128, zero point 0
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/integer_ops/l2normalization.h; kernels/internal/common.h
 * (GetInvSqrtQuantizedMultiplierExp). */
#ifndef PENSTOCK_L2_NORMALIZATION_S8_H
#define PENSTOCK_L2_NORMALIZATION_S8_H

#include "fixedpoint.h"
#include "view.h"

struct l2_normalization_s8 {
    int32_t width, depth, zero;
};

/* x * 2^exponent, saturated. */
static inline int32_t l2_normalization_s8_shift(int32_t x, int32_t exponent) {
    const int64_t wide = (int64_t)x * (INT64_C(1) << exponent);
    return wide > INT32_MAX ? INT32_MAX : (wide < INT32_MIN ? INT32_MIN : (int32_t)wide);
}

/* 1 / sqrt(x) as a multiplier, by Newton's method in Q3.28, on x brought into [2^27, 2^29) by
 * powers of four. */
static inline int32_t l2_normalization_s8_inverse_sqrt(int32_t x, int32_t *shift) {
    *shift = 0;
    if (x <= 1) {
        return INT32_MAX;
    }
    int32_t right = 11;
    for (; x >= INT32_C(1) << 29; x /= 4) {
        right++;
    }
    for (; x < INT32_C(1) << 27; x *= 4) {
        right--;
    }
    const int32_t half = penstock_rounding_shift(x >> 1, 1);
    int32_t root = INT32_C(1) << 28;
    for (int k = 0; k < 5; k++) {
        const int32_t square = penstock_high_multiply(root, root);
        const int32_t cube = l2_normalization_s8_shift(penstock_high_multiply(square, root), 6);
        const int32_t grown = penstock_high_multiply((INT32_C(1) << 28) + (INT32_C(1) << 27), root);
        root = l2_normalization_s8_shift(grown - penstock_high_multiply(half, cube), 3);
    }
    root = penstock_high_multiply(root, 1518500250); /* sqrt(1/2) */
    *shift = right > 0 ? -right : 0;
    return right < 0 ? root * (1 << -right) : root;
}

PENSTOCK_KERNEL void l2_normalization_s8(const struct l2_normalization_s8 *p,
                                         const penstock_source *x, const penstock_sink *y,
                                         int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t w = 0; w < p->width; w++) {
            int32_t sum = 0;
            for (int32_t c = 0; c < p->depth; c++) {
                const int32_t centred = in[w * p->depth + c] - p->zero;
                sum += centred * centred;
            }
            int32_t shift;
            const int32_t multiplier = l2_normalization_s8_inverse_sqrt(sum, &shift);
            for (int32_t c = 0; c < p->depth; c++) {
                const int32_t centred = in[w * p->depth + c] - p->zero;
                const int32_t scaled = penstock_multiply(centred, multiplier, shift + 7);
                out[w * p->depth + c] = (int8_t)penstock_clamp(scaled, INT8_MIN, INT8_MAX);
            }
        }
    }
}

#endif
