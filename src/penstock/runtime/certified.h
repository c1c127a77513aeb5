/* certified.h: requantisation by forms that are proved equal to the reference for every sum that a
 * channel can have.  The form of a channel consists of six numbers:
 *     fraction bits, offset, correction, factor, base, shift:
 *         t = (sum << bits) + offset,   t -= correction if t < 0,
 *         y = (base + (t * factor >> 32)) >> shift
 *     -1, multiplier, shift, zero: no form is proved; the arithmetic of the reference with double
 *         rounding
 *     -2, multiplier, shift, zero, low, high: no form is proved; with single rounding:
 *         y = zero + ((sum * multiplier + low + (high << 32)) >> shift), low without sign
 * Source: docs/requantisation.md. */
#ifndef PENSTOCK_CERTIFIED_H
#define PENSTOCK_CERTIFIED_H

#include "fixedpoint.h"

/* The output of a sum, not clamped. */
static inline int32_t penstock_certified(int32_t sum, const int32_t *form) {
    if (form[0] < 0) {
        const int64_t addend = form[5] * (INT64_C(1) << 32) + (uint32_t)form[4];
        return form[3] + (form[0] == -2
                              ? (int32_t)(((int64_t)sum * form[1] + addend) >> form[2])
                              : penstock_multiply(sum, form[1], form[2]));
    }
    int32_t t = (int32_t)(((uint32_t)sum << form[0]) + (uint32_t)form[1]);
    t -= t < 0 ? form[2] : 0;
    return (form[4] + (int32_t)((int64_t)t * form[3] >> 32)) >> form[5];
}

/* The outputs of `count` sums plus biases, clamped. */
static inline void penstock_certified_outputs(const int32_t *sums, const int32_t *bias,
                                              const int32_t *forms, int32_t count, int32_t least,
                                              int32_t most, int8_t *out) {
    for (int32_t k = 0; k < count; k++) {
        const int32_t y = penstock_certified(sums[k] + bias[k], forms + 6 * k);
        out[k] = (int8_t)penstock_clamp(y, least, most);
    }
}

#endif
