/* broadcast.h: element-wise kernels of two inputs, which are broadcast along axes of extent 1.
 * Shapes are (N, H, W, C), padded with leading ones.  The step of an input along a broadcast axis
 * is 0; steps count rows along N and H, elements along W and C. */
#ifndef PENSTOCK_BROADCAST_H
#define PENSTOCK_BROADCAST_H

#include "view.h"

/* Leading members of the parameter structures of element-wise kernels. */
#define PENSTOCK_BROADCAST_MEMBERS                                                                \
    int32_t out_h, out_w, out_c;                                                                  \
    int32_t step0_n, step0_h, step0_w, step0_c;                                                   \
    int32_t step1_n, step1_h, step1_w, step1_c

/* For each pixel of rows [lower, upper) of y: `statement` is about `out`, row `row` of y, about the
 * rows `first` and `second` of the inputs, and about `index0` and `index1`, the pixel's first elements
 * in them, and `index`, that in `out`, to which it adds `channels`.  Along channels, the inputs advance
 * by `step0` and `step1`.  Compilers would read members of p again after each write. */
#define PENSTOCK_FOR_EACH_PAIR_OF_PIXELS(statement)                                               \
    const int32_t channels = p->out_c, step0 = p->step0_c, step1 = p->step1_c;                    \
    for (int32_t row = lower; row < upper; row++) {                                               \
        const int32_t n = row / p->out_h;                                                         \
        const int32_t h = row % p->out_h;                                                         \
        const int8_t *first = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);          \
        const int8_t *second = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);         \
        int8_t *out = penstock_write_row(y, row);                                                 \
        int32_t index = 0;                                                                        \
        for (int32_t w = 0; w < p->out_w; w++) {                                                  \
            int32_t index0 = w * p->step0_w;                                                      \
            int32_t index1 = w * p->step1_w;                                                      \
            statement;                                                                            \
        }                                                                                         \
    }

/* For each element of rows [lower, upper) of y: `write` is a statement about the elements `a` and
 * `b` of the inputs, which `get` reads from a row, about `out`, row `row` of y, and about `index`,
 * that of the element in the row. */
#define PENSTOCK_FOR_EACH_PAIR_AT(type, get, write)                                               \
    PENSTOCK_FOR_EACH_PAIR_OF_PIXELS(PENSTOCK_FOR_EACH_CHANNEL(type, get, write))

#define PENSTOCK_FOR_EACH_CHANNEL(type, get, write)                                               \
    for (const int32_t end = index + channels; index < end; index++) {                            \
        const type a = get(first, index0);                                                        \
        const type b = get(second, index1);                                                       \
        index0 += step0;                                                                          \
        index1 += step1;                                                                          \
        write;                                                                                    \
    }

/* The same; `result` is the next element of y, of 8 bits. */
#define PENSTOCK_FOR_EACH_PAIR_TO_S8(type, get, result)                                           \
    PENSTOCK_FOR_EACH_PAIR_AT(type, get, *out++ = (int8_t)(result))

#endif
