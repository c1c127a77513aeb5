/* batch_matmul_forms_s8: products of matrices, requantised by a form; a row of a view is a matrix.
 *   a  (.., m, depth)  int8   or transposed
 *   b  (.., depth, n)  int8   or transposed; matrices are broadcast where step0 or step1 is 0
 *   y  (.., m, n)      int8
 * Computes rows (matrices) [lower, upper) of y. */
#ifndef PENSTOCK_BATCH_MATMUL_FORMS_S8_H
#define PENSTOCK_BATCH_MATMUL_FORMS_S8_H

#include "certified.h"
#include "matrix_product.h"

struct batch_matmul_forms_s8 {
    PENSTOCK_MATRIX_SHAPES;
    int32_t zero0, zero1, least, most;
    const int32_t *forms; /* one, see certified.h */
};

PENSTOCK_KERNEL void batch_matmul_forms_s8(const struct batch_matmul_forms_s8 *p,
                                           const penstock_source *x, const penstock_sink *y,
                                           int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_MATRIX(
        int32_t sum = 0; for (int32_t k = 0; k < p->depth; k++) {
            const int32_t left = a[i * p->row0 + k * p->inner0] - p->zero0;
            sum += left * (b[j * p->column1 + k * p->inner1] - p->zero1);
        } *out++ = (int8_t)penstock_clamp(penstock_certified(sum, p->forms), p->least, p->most))
}

#endif
