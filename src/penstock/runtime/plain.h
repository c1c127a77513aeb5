/* plain.h: loops of element-wise kernels on plain numbers, float or int32_t.
 * A kernel computes rows [lower, upper) of y.  `result` is an expression of the elements. */
#ifndef PENSTOCK_PLAIN_H
#define PENSTOCK_PLAIN_H

#include "broadcast.h"
#include "real.h"
#include "wide.h"

/* For each element `a` of rows of p->width elements. */
#define PENSTOCK_FOR_EACH(type, suffix, result)                                                   \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int8_t *in = penstock_read_row(x, row);                                             \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t k = 0; k < p->width; k++) {                                                  \
            const type a = penstock_get_##suffix(in, k);                                          \
            penstock_put_##suffix(out, k, result);                                                \
        }                                                                                         \
    }

/* For each pair of elements `a` and `b` of two inputs, which may be broadcast. */
#define PENSTOCK_FOR_EACH_PAIR(type, suffix, result)                                              \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int32_t n = row / p->out_h;                                                         \
        const int32_t h = row % p->out_h;                                                         \
        const int8_t *first = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);          \
        const int8_t *second = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);         \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t w = 0; w < p->out_w; w++) {                                                  \
            for (int32_t c = 0; c < p->out_c; c++) {                                              \
                const type a = penstock_get_##suffix(first, w * p->step0_w + c * p->step0_c);     \
                const type b = penstock_get_##suffix(second, w * p->step1_w + c * p->step1_c);    \
                penstock_put_##suffix(out, w * p->out_c + c, result);                             \
            }                                                                                     \
        }                                                                                         \
    }

/* Clamps to [bounds[0], bounds[1]]; NaN stays. */
static inline float penstock_bounded_f32(float element, const float *bounds) {
    const float raised = element < bounds[0] ? bounds[0] : element;
    return raised > bounds[1] ? bounds[1] : raised;
}

static inline int32_t penstock_bounded_s32(int32_t element, const int32_t *bounds) {
    const int32_t raised = element < bounds[0] ? bounds[0] : element;
    return raised > bounds[1] ? bounds[1] : raised;
}

#endif
