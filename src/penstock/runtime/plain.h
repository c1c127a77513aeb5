/* plain.h: loops of element-wise kernels on plain numbers, float or int32_t.
 * A kernel computes rows [lower, upper) of y.  `result` is an expression of the elements. */
#ifndef PENSTOCK_PLAIN_H
#define PENSTOCK_PLAIN_H

#include "broadcast.h"
#include "real.h"
#include "wide.h"

/* For each element `a` of rows of p->width elements.  Compilers would read members of p again after
 * each write. */
#define PENSTOCK_FOR_EACH(type, suffix, result)                                                   \
    const int32_t width = p->width;                                                               \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int8_t *in = penstock_read_row(x, row);                                             \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t k = 0; k < width; k++) {                                                     \
            const type a = penstock_get_##suffix(in, k);                                          \
            penstock_put_##suffix(out, k, result);                                                \
        }                                                                                         \
    }

/* For each pair of elements `a` and `b` of two inputs, which may be broadcast. */
#define PENSTOCK_FOR_EACH_PAIR(type, suffix, result)                                              \
    PENSTOCK_FOR_EACH_PAIR_AT(type, penstock_get_##suffix,                                        \
                              penstock_put_##suffix(out, index, result))

/* The same for a short `result`: loops of their own for channels that follow each other, and for one
 * number b, are faster. */
#define PENSTOCK_FOR_EACH_SHORT_PAIR(type, suffix, result)                                        \
    const int32_t step0 = p->step0_c, step1 = p->step1_c, channels = p->out_c;                    \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int32_t n = row / p->out_h;                                                         \
        const int32_t h = row % p->out_h;                                                         \
        const int8_t *first = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);          \
        const int8_t *second = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);         \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t w = 0; w < p->out_w; w++) {                                                  \
            if (step0 == 1 && step1 == 1) {                                                       \
                PENSTOCK_FOR_CHANNELS(type, suffix, k,                                            \
                                      const type b = penstock_get_##suffix(second, k), result)    \
            } else if (step0 == 1 && step1 == 0) {                                                \
                const type b = penstock_get_##suffix(second, 0);                                  \
                PENSTOCK_FOR_CHANNELS(type, suffix, k, (void)0, result)                           \
            } else {                                                                              \
                PENSTOCK_FOR_CHANNELS(type, suffix, k * step0,                                    \
                                      const type b = penstock_get_##suffix(second, k * step1),    \
                                      result)                                                     \
            }                                                                                     \
            first += p->step0_w * 4;                                                              \
            second += p->step1_w * 4;                                                             \
            out += channels * 4;                                                                  \
        }                                                                                         \
    }

#define PENSTOCK_FOR_CHANNELS(type, suffix, index0, take, result)                                 \
    for (int32_t k = 0; k < channels; k++) {                                                      \
        const type a = penstock_get_##suffix(first, index0);                                      \
        take;                                                                                     \
        penstock_put_##suffix(out, k, result);                                                    \
    }

/* Clamps to [bounds[0], bounds[1]]. */
static inline int32_t penstock_bounded_s32(int32_t element, const int32_t *bounds) {
    const int32_t raised = element < bounds[0] ? bounds[0] : element;
    return raised > bounds[1] ? bounds[1] : raised;
}

#endif
