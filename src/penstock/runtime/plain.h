/* plain.h: loops of element-wise kernels on plain numbers, float or int32_t.
 * A kernel computes rows [lower, upper) of y.  `result` is an expression of the elements. */
#ifndef PENSTOCK_PLAIN_H
#define PENSTOCK_PLAIN_H

#include "broadcast.h"
#include "loop.h"
#include "real.h"
#include "wide.h"

/* For each element `a` of rows of p->width elements.  Compilers would read members of p again after
 * each write. */
#define PENSTOCK_FOR_EACH(type, suffix, result)                                                   \
    PENSTOCK_FOR_EACH_ROW(for (int32_t k = 0; k < width; k++) {                                   \
        const type a = penstock_get_##suffix(in, k);                                              \
        penstock_put_##suffix(out, k, result);                                                    \
    })

/* The same for a short `result`. */
#define PENSTOCK_FOR_EACH_SHORT(type, suffix, result)                                             \
    PENSTOCK_FOR_EACH_ROW(PENSTOCK_BY_TWOS(width, const type a = penstock_get_##suffix(in, k);    \
                                           penstock_put_##suffix(out, k, result)))

#define PENSTOCK_FOR_EACH_ROW(statement)                                                          \
    const int32_t width = p->width;                                                               \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int8_t *in = penstock_read_row(x, row);                                             \
        int8_t *out = penstock_write_row(y, row);                                                 \
        statement;                                                                                \
    }

/* For each pair of elements `a` and `b` of two inputs, which may be broadcast. */
#define PENSTOCK_FOR_EACH_PAIR(type, suffix, result)                                              \
    PENSTOCK_FOR_EACH_PAIR_AT(type, penstock_get_##suffix,                                        \
                              penstock_put_##suffix(out, index, result))

/* The same for a short `result`: loops of their own for channels that follow each other, and for one
 * number b, are faster. */
#define PENSTOCK_FOR_EACH_SHORT_PAIR(type, suffix, result)                                        \
    PENSTOCK_FOR_EACH_PAIR_OF_PIXELS(                                                             \
        if (step0 == 1 && step1 == 1) {                                                           \
            PENSTOCK_BY_TWOS(channels, const type a = penstock_get_##suffix(first, index0 + k);   \
                             const type b = penstock_get_##suffix(second, index1 + k);            \
                             penstock_put_##suffix(out, index + k, result))                       \
            index += channels;                                                                    \
        } else if (step0 == 1 && step1 == 0) {                                                    \
            const type b = penstock_get_##suffix(second, index1);                                 \
            PENSTOCK_BY_TWOS(channels, const type a = penstock_get_##suffix(first, index0 + k);   \
                             penstock_put_##suffix(out, index + k, result))                       \
            index += channels;                                                                    \
        } else {                                                                                  \
            PENSTOCK_FOR_EACH_CHANNEL(type, penstock_get_##suffix,                                \
                                      penstock_put_##suffix(out, index, result))                  \
        })

/* Clamps to [bounds[0], bounds[1]]. */
static inline int32_t penstock_bounded_s32(int32_t element, const int32_t *bounds) {
    const int32_t raised = element < bounds[0] ? bounds[0] : element;
    return raised > bounds[1] ? bounds[1] : raised;
}

#endif
