/* dynamic.h: int8 steps of floats, as TensorFlow Lite quantises the inputs of layers at run time. */
#ifndef PENSTOCK_DYNAMIC_H
#define PENSTOCK_DYNAMIC_H

#include "integral.h"
#include "real.h"

/* In place of the scale of elements that are all 0. */
#define PENSTOCK_LEAST_STEP 7.88860905221011805e-31f /* 2^-100 */

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

/* Puts a vector of floats in int8 steps less their zero point, as floats; returns their scale. */
static inline float penstock_put_steps(const int8_t *x, int32_t count, int32_t symmetric,
                                       int8_t *steps) {
    float least = 0.0f, most = 0.0f;
    for (int32_t k = 0; k < count; k++) {
        const float element = penstock_get_f32(x, k);
        least = element < least ? element : least;
        most = element > most ? element : most;
    }
    float scale = (most - least) / 255.0f, zero = 0.0f, factor, lower = -128.0f;
    if (symmetric) {
        float largest = most > -least ? most : -least;
        largest = largest > PENSTOCK_LEAST_STEP ? largest : PENSTOCK_LEAST_STEP;
        scale = largest / 127.0f;
        factor = 127.0f / largest;
        lower = -127.0f;
    } else {
        scale = scale > PENSTOCK_LEAST_STEP ? scale : PENSTOCK_LEAST_STEP;
        zero = penstock_dynamic_zero(least, most);
        factor = 1.0f / scale;
    }
    for (int32_t k = 0; k < count; k++) {
        float step = penstock_round_away(penstock_product(penstock_get_f32(x, k), factor)) + zero;
        step = step < lower ? lower : step > 127.0f ? 127.0f : step;
        penstock_put_f32(steps, k, step - zero);
    }
    return scale;
}

#endif
