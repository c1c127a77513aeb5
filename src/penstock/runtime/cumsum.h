/* cumsum.h: sums of the elements up to each one, along one axis.
 *   x, y  (outer, depth, inner)
 * Computes all rows of y.  Source: TensorFlow Lite, reference/cumsum.h. */
#ifndef PENSTOCK_CUMSUM_H
#define PENSTOCK_CUMSUM_H

#include "view.h"

/* Leading members of the parameter structures. */
#define PENSTOCK_CUMSUM_MEMBERS                                                                   \
    int32_t outer, depth, inner;                                                                  \
    int32_t exclusive, reverse /* leaves out the element; sums from the end */

/* `sum`, of `type`, begins with `initial`.  `next`: the sum with element `place` of the row `in`;
 * `put(out, place, result)` writes the chosen sum. */
#define PENSTOCK_CUMSUM(type, initial, next, put)                                                 \
    (void)lower;                                                                                  \
    (void)upper;                                                                                  \
    const int8_t *in = penstock_read_row(x, 0);                                                   \
    int8_t *out = penstock_write_row(y, 0);                                                       \
    for (int32_t k = 0; k < p->outer * p->inner; k++) {                                           \
        const int32_t first = k / p->inner * p->depth * p->inner + k % p->inner;                  \
        type sum = initial;                                                                       \
        for (int32_t i = 0; i < p->depth; i++) {                                                  \
            const int32_t place = first + (p->reverse ? p->depth - 1 - i : i) * p->inner;         \
            const type before = sum;                                                              \
            sum = next;                                                                           \
            put(out, place, p->exclusive ? before : sum);                                         \
        }                                                                                         \
    }

#endif
