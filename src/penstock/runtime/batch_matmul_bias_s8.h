/* batch_matmul_bias_s8: products of matrices, plus a bias, requantised; a row of a view is a matrix.
 *   a  (.., m, depth)  int8   or transposed
 *   b  (.., depth, n)  int8   or transposed; matrices are broadcast where step0 or step1 is 0
 *   bias  (n)         int32
 *   y  (.., m, n)      int8
 * Computes rows (matrices) [lower, upper) of y.
 * Source: TensorFlow Lite, reference/fully_connected.h. */
#ifndef PENSTOCK_BATCH_MATMUL_BIAS_S8_H
#define PENSTOCK_BATCH_MATMUL_BIAS_S8_H

#include "matrix_product.h"

struct batch_matmul_bias_s8 {
    PENSTOCK_MATRIX_PRODUCT_MEMBERS;
    const int32_t *bias;
};

PENSTOCK_KERNEL void batch_matmul_bias_s8(const struct batch_matmul_bias_s8 *p,
                                          const penstock_source *x, const penstock_sink *y,
                                          int32_t lower, int32_t upper) {
    PENSTOCK_MULTIPLY_MATRICES(p->bias[j])
}

#endif
