/* reduction.h: kernels that reduce whole axes: the input region of an output element.
 *   x  (N, in_h, in_w, in_c)
 *   y  the same, extent 1 along reduced axes
 * An output element spans the whole extent along a reduced axis and 1 along any other. */
#ifndef PENSTOCK_REDUCTION_H
#define PENSTOCK_REDUCTION_H

#include "view.h"

/* Leading members of the parameter structures of reductions. */
#define PENSTOCK_REDUCTION_MEMBERS                                                                \
    int32_t in_h, in_w, in_c;                                                                     \
    int32_t span_n, span_h, span_w, span_c

/* For each input element of output (n, h, w, c), by ascending indices: `statement` is about element
 * `at` of the row `in`. */
#define PENSTOCK_FOR_EACH_REDUCED(statement)                                                      \
    for (int32_t i = n; i < n + p->span_n; i++) {                                                 \
        for (int32_t j = h; j < h + p->span_h; j++) {                                             \
            const int8_t *in = penstock_read_row(x, i * p->in_h + j);                             \
            for (int32_t k = w; k < w + p->span_w; k++) {                                         \
                for (int32_t l = c; l < c + p->span_c; l++) {                                     \
                    const int32_t at = k * p->in_c + l;                                           \
                    statement;                                                                    \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }

/* For each element of rows [lower, upper) of y: `statement` is about `out`, row `row` of y, and
 * about (n, h, w, c), the first of its input elements. */
#define PENSTOCK_FOR_EACH_REDUCTION(statement)                                                    \
    const int32_t out_h = p->in_h / p->span_h;                                                    \
    for (int32_t row = lower; row < upper; row++) {                                               \
        int8_t *out = penstock_write_row(y, row);                                                 \
        for (int32_t w = 0; w < p->in_w; w += p->span_w) {                                        \
            for (int32_t c = 0; c < p->in_c; c += p->span_c) {                                    \
                const int32_t n = row / out_h * p->span_n;                                        \
                const int32_t h = row % out_h * p->span_h;                                        \
                statement;                                                                        \
            }                                                                                     \
        }                                                                                         \
    }

#endif
