/* dynamic.h: int8 steps of floats, as TensorFlow Lite quantises the inputs of layers at run time. */
#ifndef PENSTOCK_DYNAMIC_H
#define PENSTOCK_DYNAMIC_H

#include "integral.h"

/* The zero point of steps from `least`, at most 0, to `most`, at least 0: from the end at which the
 * error is smaller, in double precision, as in the reference; NaN counts as the smallest.
 * Source: TensorFlow Lite, AsymmetricQuantizeFloats (portable_tensor_utils.cc). */
static inline float penstock_dynamic_zero(float least, float most) {
    if (!(least < most)) {
        return 0.0f;
    }
    const double scale = ((double)most - (double)least) / 255.0;
    const double below = (double)least / scale, above = (double)most / scale;
    const double zero = 128.0 - below < 127.0 + above ? -128.0 - below : 127.0 - above;
    if (!(zero > -128.0)) {
        return -128.0f;
    }
    if (zero >= 127.0) {
        return 127.0f;
    }
    const double magnitude = zero < 0 ? -zero : zero;
    const int32_t floor = (int32_t)magnitude;
    const int32_t rounded = magnitude - (double)floor >= 0.5 ? floor + 1 : floor;
    return (float)(zero < 0 ? -rounded : rounded);
}

#endif
