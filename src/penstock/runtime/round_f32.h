/* round_f32: nearest integer, ties to even, or `away` from zero, element by element.
 *   x, y  float  rows of `width` elements
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/round.h; TfLiteRound (cppmath.h). */
#ifndef PENSTOCK_ROUND_F32_H
#define PENSTOCK_ROUND_F32_H

#include "integral.h"
#include "plain.h"

struct round_f32 {
    int32_t width, away;
};

PENSTOCK_KERNEL void round_f32(const struct round_f32 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH(float, f32, p->away ? penstock_round_away(a) : penstock_round(a))
}

#endif
