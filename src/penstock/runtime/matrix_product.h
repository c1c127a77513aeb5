/* matrix_product.h: members and loops of the kernels that multiply matrices; a row of a view is a
 * matrix. */
#ifndef PENSTOCK_MATRIX_PRODUCT_H
#define PENSTOCK_MATRIX_PRODUCT_H

#include "fixedpoint.h"
#include "view.h"

/* Leading members of their parameter structures. */
#define PENSTOCK_MATRIX_SHAPES                                                                    \
    int32_t m, n, depth;                                                                          \
    int32_t out_h, step0_n, step0_h, step1_n, step1_h; /* matrices */                             \
    int32_t row0, inner0, column1, inner1              /* elements within a matrix */

#define PENSTOCK_MATRIX_PRODUCT_MEMBERS                                                           \
    PENSTOCK_MATRIX_SHAPES;                                                                       \
    int32_t zero0, zero1, multiplier, shift, out_zero, least, most

/* For each row i and column j of the rows (matrices) [lower, upper) of y: `compute` puts the
 * element, given the matrices `a`, `b` and `out`. */
#define PENSTOCK_FOR_EACH_MATRIX(compute)                                                         \
    for (int32_t matrix = lower; matrix < upper; matrix++) {                                      \
        const int32_t batch = matrix / p->out_h;                                                  \
        const int32_t h = matrix % p->out_h;                                                      \
        const int8_t *a = penstock_read_row(&x[0], batch * p->step0_n + h * p->step0_h);          \
        const int8_t *b = penstock_read_row(&x[1], batch * p->step1_n + h * p->step1_h);          \
        int8_t *out = penstock_write_row(y, matrix);                                              \
        for (int32_t i = 0; i < p->m; i++) {                                                      \
            for (int32_t j = 0; j < p->n; j++) {                                                  \
                compute;                                                                          \
            }                                                                                     \
        }                                                                                         \
    }

/* Computes rows (matrices) [lower, upper) of y; the sums of column j begin with `first`. */
#define PENSTOCK_MULTIPLY_MATRICES(first)                                                         \
    PENSTOCK_FOR_EACH_MATRIX(                                                                     \
        int32_t sum = first; for (int32_t k = 0; k < p->depth; k++) {                             \
            const int32_t left = a[i * p->row0 + k * p->inner0] - p->zero0;                       \
            sum += left * (b[j * p->column1 + k * p->inner1] - p->zero1);                         \
        } const int32_t scaled = penstock_multiply(sum, p->multiplier, p->shift);                 \
        *out++ = (int8_t)penstock_clamp(scaled + p->out_zero, p->least, p->most))

#endif
