/* svdf_time.h: weighted sums over the time steps of an SVDF, of `rank` filters per unit.
 *   x  (1, T, 1, F)  `type`, read by `get`     w  (F, T)  `type`
 *   y  (1, U)        int8      b  (U)     int32     U = F / rank
 * Sums wrap around.  Computes rows [lower, upper) of y, which has one; several filters at a time,
 * so that the address of a row of x is computed once for all of them.
 * Source: TensorFlow Lite Micro, micro/kernels/svdf_common.cc. */
#ifndef PENSTOCK_SVDF_TIME_H
#define PENSTOCK_SVDF_TIME_H

#include "fixedpoint.h"
#include "view.h"

enum { PENSTOCK_SVDF_BLOCK = 8 };

/* Leading members of the parameter structures. */
#define PENSTOCK_SVDF_TIME_MEMBERS                                                                \
    int32_t steps, filters, rank, out_zero, multiplier, shift

#define PENSTOCK_SVDF_TIME(type, get)                                                             \
    int32_t unit = 0;                                                                             \
    int32_t rank = 0; /* filters that `total` contains */                                         \
    uint32_t total = 0;                                                                           \
    for (int32_t first = 0; lower < upper && first < p->filters; first += PENSTOCK_SVDF_BLOCK) {  \
        const int32_t left = p->filters - first;                                                  \
        const int32_t count = left < PENSTOCK_SVDF_BLOCK ? left : PENSTOCK_SVDF_BLOCK;            \
        uint32_t sums[PENSTOCK_SVDF_BLOCK] = {0};                                                 \
        for (int32_t t = 0; t < p->steps; t++) {                                                  \
            const int8_t *row = penstock_read_row(x, t);                                          \
            const type *w = p->weights + first * p->steps + t;                                    \
            for (int32_t k = 0; k < count; k++, w += p->steps) {                                  \
                sums[k] += (uint32_t)(*w * get(row, first + k));                                  \
            }                                                                                     \
        }                                                                                         \
        for (int32_t k = 0; k < count; k++) {                                                     \
            total += sums[k];                                                                     \
            rank++;                                                                               \
            if (rank == p->rank) {                                                                \
                const int32_t sum = (int32_t)(total + (uint32_t)p->bias[unit]);                   \
                const int32_t scaled = penstock_multiply(sum, p->multiplier, p->shift);           \
                penstock_write_row(y, lower)[unit] =                                              \
                    (int8_t)penstock_clamp(scaled + p->out_zero, INT8_MIN, INT8_MAX);             \
                unit++;                                                                           \
                rank = 0;                                                                         \
                total = 0;                                                                        \
            }                                                                                     \
        }                                                                                         \
    }

#endif
