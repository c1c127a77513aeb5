/* batch_matmul_s8: products of matrices, requantised; a row of a view is a matrix.
 *   a  (.., m, depth)  int8   or transposed
 *   b  (.., depth, n)  int8   or transposed; matrices are broadcast where step0 or step1 is 0
 *   y  (.., m, n)      int8
 * Computes rows (matrices) [lower, upper) of y.
 * Source: TensorFlow Lite, reference/batch_matmul.h. */
#ifndef PENSTOCK_BATCH_MATMUL_S8_H
#define PENSTOCK_BATCH_MATMUL_S8_H

#include "matrix_product.h"

struct batch_matmul_s8 {
    PENSTOCK_MATRIX_PRODUCT_MEMBERS;
};

PENSTOCK_KERNEL void batch_matmul_s8(const struct batch_matmul_s8 *p, const penstock_source *x,
                                     const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_MULTIPLY_MATRICES(0)
}

#endif
