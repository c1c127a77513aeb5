/* batch_matmul_f32: products of matrices of floats; a row of a view is a matrix.
 *   a  (.., m, depth)  float   or transposed
 *   b  (.., depth, n)  float   or transposed; matrices are broadcast where step0 or step1 is 0
 *   y  (.., m, n)      float
 * Computes rows (matrices) [lower, upper) of y.
 * Source: TensorFlow Lite, reference/batch_matmul.h. */
#ifndef PENSTOCK_BATCH_MATMUL_F32_H
#define PENSTOCK_BATCH_MATMUL_F32_H

#include "matrix_product.h"
#include "real.h"

struct batch_matmul_f32 {
    PENSTOCK_MATRIX_SHAPES;
};

/* The sum of products of a row and a column; steps are in elements. */
static inline float batch_matmul_f32_sum(const int8_t *row, int32_t row_step, const int8_t *column,
                                         int32_t column_step, int32_t depth) {
    float sum = 0.0f;
    for (int32_t k = 0; k < depth; k++, row += row_step * 4, column += column_step * 4) {
        sum += penstock_product(penstock_get_f32(row, 0), penstock_get_f32(column, 0));
    }
    return sum;
}

PENSTOCK_KERNEL void batch_matmul_f32(const struct batch_matmul_f32 *p, const penstock_source *x,
                                      const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_MATRIX(
        penstock_put_f32(out, i * p->n + j,
                         batch_matmul_f32_sum(a + i * p->row0 * 4, p->inner0,
                                              b + j * p->column1 * 4, p->inner1, p->depth)))
}

#endif
