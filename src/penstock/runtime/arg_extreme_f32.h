/* arg_extreme_f32: index of the first largest or smallest element along one axis.
 *   x  (N, in_h, in_w, in_c)  float
 *   y  the same, extent 1 along the axis  int32
 * Computes rows [lower, upper) of y.
 * Source: TensorFlow Lite, reference/arg_min_max.h. */
#ifndef PENSTOCK_ARG_EXTREME_F32_H
#define PENSTOCK_ARG_EXTREME_F32_H

#include "loop.h"
#include "real.h"
#include "reduction.h"

struct arg_extreme_f32 {
    PENSTOCK_REDUCTION_MEMBERS;
    int32_t sign; /* 1 finds the largest, -1 the smallest */
};

static inline int32_t arg_extreme_f32_is_better(int32_t sign, float element, float best) {
    return sign > 0 ? element > best : element < best;
}

/* For each `next`-th of `elements` elements: index of the extreme of `count` that are `step` bytes apart.
 */
PENSTOCK_INLINE_KERNEL void arg_extreme_f32_dense(int32_t sign, int8_t *out, const int8_t *in,
                                                  int32_t elements, int32_t next, int32_t step,
                                                  int32_t count) {
    for (const int8_t *end = in + elements * 4; in < end; in += next * 4, out += 4) {
        const int8_t *at = in;
        float best = penstock_get_f32(in, 0);
        int32_t found = 0;
        PENSTOCK_BY_TWOS(count - 1, at += step; const float element = penstock_get_f32(at, 0);
                         if (arg_extreme_f32_is_better(sign, element, best)) {
                             best = element;
                             found = k + 1;
                         })
        memcpy(out, &found, sizeof found);
    }
}

/* The same of element `at` of `count` rows. */
static inline int32_t arg_extreme_f32_of_rows(int32_t sign, const penstock_source *x, int32_t row,
                                              int32_t next, int32_t count, int32_t at) {
    float best = penstock_get_f32(penstock_read_row(x, row), at);
    int32_t found = 0;
    for (int32_t k = 1; k < count; k++) {
        const float element = penstock_get_f32(penstock_read_row(x, row + k * next), at);
        if (arg_extreme_f32_is_better(sign, element, best)) {
            best = element;
            found = k;
        }
    }
    return found;
}

PENSTOCK_KERNEL void arg_extreme_f32(const struct arg_extreme_f32 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t in_h = p->in_h, out_h = in_h / p->span_h, sign = p->sign;
    const int32_t elements = p->in_w * p->in_c, span_c = p->span_c, span_w = p->span_w;
    const int32_t lines = p->span_n * p->span_h, next_line = p->span_n > 1 ? in_h : 1;
    /* The axis is a part of a row, or one element of each of several lines. */
    const int32_t count = lines * span_w * span_c;
    const int32_t step = lines > 1 ? x->pitch * next_line : (span_w > 1 ? p->in_c : 1) * 4;
    const int32_t next = span_w > 1 ? 1 : span_c, end = span_w > 1 ? p->in_c : elements;
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        const int32_t first = row / out_h * p->span_n * in_h + row % out_h * p->span_h;
        const int32_t is_dense = lines == 1 || first + (lines - 1) * next_line < x->ring;
        const int8_t *in = penstock_read_row(x, first);
        if (is_dense && sign > 0) {
            arg_extreme_f32_dense(1, out, in, end, next, step, count);
        } else if (is_dense) {
            arg_extreme_f32_dense(-1, out, in, end, next, step, count);
        } else {
            for (int32_t at = 0; at < end; at += next, out += 4) {
                const int32_t found =
                    arg_extreme_f32_of_rows(sign, x, first, next_line, count, at);
                memcpy(out, &found, sizeof found);
            }
        }
    }
}

#endif
