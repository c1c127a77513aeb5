/* trigonometric_f32: sin(a), cos(a) or atan(a), element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.  Errors are below 4 units in the last place, and 2^-29 where
 * sin and cos are nearly 0.  Angles are reduced in integers, with as many bits of 2 / pi as needed,
 * so that they may be of any size. */
#ifndef PENSTOCK_TRIGONOMETRIC_F32_H
#define PENSTOCK_TRIGONOMETRIC_F32_H

#include "float_bits.h"
#include "plain.h"

struct trigonometric_f32 {
    int32_t width, function; /* 0: sin, 1: cos, 2: atan */
};

/* Bits first .. first + 63 of 2 / pi behind the binary point, which bit 1 follows. */
static inline uint64_t penstock_bits_of_two_over_pi(int32_t first) {
    static const uint64_t words[] = {0,
                                     UINT64_C(0xA2F9836E4E441529),
                                     UINT64_C(0xFC2757D1F534DDC0),
                                     UINT64_C(0xDB6295993C439041),
                                     UINT64_C(0xFE5163ABDEBBC561)};
    const int32_t at = first + 63;
    const uint64_t left = words[at / 64] << (at % 64);
    return at % 64 ? left | words[at / 64 + 1] >> (64 - at % 64) : left;
}

/* a * 2 / pi modulo 4, in Q62. */
static inline uint64_t penstock_quadrants(float a) {
    const uint32_t bits = penstock_bits_of(a);
    const int32_t exponent = (int32_t)(bits >> 23 & 255) - 150;
    const uint64_t size = ((bits & 0x7FFFFF) | 0x800000) * penstock_bits_of_two_over_pi(exponent - 1);
    return bits >> 31 ? 0 - size : size;
}

/* 1 + c[0] z (1 + c[1] z (..)) in Q30. */
static inline int32_t penstock_alternating(int32_t z, const int32_t *coefficients, int32_t count) {
    int64_t sum = coefficients[count - 1];
    for (int32_t k = count - 2; k >= 0; k--) {
        sum = coefficients[k] + ((sum * z) >> 30);
    }
    return (int32_t)sum;
}

static inline float penstock_sine(float a, int32_t is_cosine) {
    static const int32_t sine[] = {1073741824, -178956971, 8947849, -213044, 2959};
    static const int32_t cosine[] = {1073741824, -536870912, 44739243, -1491308, 26631, -296};
    const float size = a < 0.0f ? -a : a;
    if (!(size <= 3.4028235e38f)) {
        return a - a;
    }
    if (size < 0.000244140625f) {
        return is_cosine ? 1.0f : a;
    }
    const uint64_t turned = penstock_quadrants(a);
    const uint64_t quadrant = (turned + (UINT64_C(1) << 61)) >> 62;
    const int64_t rest = (int64_t)(turned - (quadrant << 62));
    const int32_t angle = (int32_t)(((rest >> 32) * 1686629713) >> 30); /* Q30 */
    const int32_t square = (int32_t)(((int64_t)angle * angle) >> 30);
    const uint64_t shape = quadrant + (uint64_t)is_cosine;
    const float found =
        shape & 1 ? (float)penstock_alternating(square, cosine, 6) * 9.313225746154785e-10f
                  : (float)rest * 3.4061215800865545e-19f *
                        ((float)penstock_alternating(square, sine, 5) * 9.313225746154785e-10f);
    return shape & 2 ? -found : found;
}

static inline float penstock_arctangent(float a) {
    static const int32_t series[] = {1073741824, -357913941, 214748365, -153391689, 119304647,
                                     -97612893,  82595525,   -71582788, 63161284};
    if (a != a) {
        return a;
    }
    const float size = a < 0.0f ? -a : a;
    const int32_t is_large = size > 1.0f;
    const float inside = is_large ? 1.0f / size : size;
    const int32_t is_high = inside > 0.41421356f;
    const float t = is_high ? (inside - 1.0f) / (inside + 1.0f) : inside;
    const int32_t fixed = (int32_t)(t * 1073741824.0f);
    const int32_t square = (int32_t)(((int64_t)fixed * fixed) >> 30);
    const int32_t factor = penstock_alternating(square, series, 9);
    float found = t * ((float)factor * 9.313225746154785e-10f);
    if (is_large || is_high) {
        const int64_t angle = (((int64_t)fixed * factor) >> 30) + (is_high ? 843314857 : 0);
        found = (float)(is_large ? 1686629713 - angle : angle) * 9.313225746154785e-10f;
    }
    return a < 0.0f ? -found : found;
}

PENSTOCK_KERNEL void trigonometric_f32(const struct trigonometric_f32 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32,
                      p->function == 2 ? penstock_arctangent(a) : penstock_sine(a, p->function))
}

#endif
