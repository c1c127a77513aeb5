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
    PENSTOCK_FOR_EACH_PAIR_AT(type, penstock_get_##suffix,                                        \
                              penstock_put_##suffix(out, index, result))

/* Clamps to [bounds[0], bounds[1]]. */
static inline int32_t penstock_bounded_s32(int32_t element, const int32_t *bounds) {
    const int32_t raised = element < bounds[0] ? bounds[0] : element;
    return raised > bounds[1] ? bounds[1] : raised;
}

#endif
