/* scatter_nd: a copy of a tensor into which slices are written at computed positions.
 *   x[0]  any shape; a slice has slice_elements elements of element_bytes
 *   x[1]  `count` positions of `depth` indices  int32
 *   x[2]  one slice for each position
 *   y     as x[0]
 * extents[k] and strides[k] are extent and bytes of axis k of x[0].  Indices are clamped.  Slices
 * replace those of y, or are combined with them by `reduction`, in order of positions.  Computes
 * all rows of y, also in place of x[0].
 * Source: ONNX operator specification, ScatterND. */
#ifndef PENSTOCK_SCATTER_ND_H
#define PENSTOCK_SCATTER_ND_H

#include "fixedpoint.h"
#include "integers.h"
#include "real.h"
#include "view.h"
#include "wide.h"

struct scatter_nd {
    int32_t total_bytes, count, depth, slice_elements, element_bytes, is_real, is_signed;
    int32_t reduction; /* 0: none, 1: sum, 2: product, 3: maximum, 4: minimum */
    const int32_t *extents, *strides;
};

static inline void scatter_nd_real(int8_t *out, const int8_t *in, int32_t k, int32_t reduction) {
    const float a = penstock_get_f32(out, k), b = penstock_get_f32(in, k);
    penstock_put_f32(out, k, reduction == 1   ? a + b
                             : reduction == 2 ? a * b
                             : reduction == 3 ? (a > b ? a : b)
                                              : (a < b ? a : b));
}

static inline void scatter_nd_integer(int8_t *out, const int8_t *in, int32_t k,
                                      const struct scatter_nd *p) {
    const int64_t a = penstock_get_integer(out, k, p->element_bytes, p->is_signed);
    const int64_t b = penstock_get_integer(in, k, p->element_bytes, p->is_signed);
    const int32_t reduction = p->reduction;
    penstock_put_integer(out, k, p->element_bytes,
                         reduction == 1   ? (int64_t)((uint64_t)a + (uint64_t)b)
                         : reduction == 2 ? (int64_t)((uint64_t)a * (uint64_t)b)
                         : reduction == 3 ? (a > b ? a : b)
                                          : (a < b ? a : b));
}

PENSTOCK_KERNEL void scatter_nd(const struct scatter_nd *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    const int8_t *before = penstock_read_row(&x[0], 0);
    const int8_t *indices = penstock_read_row(&x[1], 0);
    const int8_t *in = penstock_read_row(&x[2], 0);
    int8_t *first = penstock_write_row(y, 0);
    const int32_t slice_bytes = p->slice_elements * p->element_bytes;
    if (first != before) {
        memcpy(first, before, (size_t)p->total_bytes);
    }
    for (int32_t k = 0; k < p->count; k++, in += slice_bytes) {
        int8_t *out = first;
        for (int32_t axis = 0; axis < p->depth; axis++) {
            const int32_t index = penstock_get_s32(indices, k * p->depth + axis);
            out += penstock_clamp(index, 0, p->extents[axis] - 1) * p->strides[axis];
        }
        if (p->reduction == 0) {
            memcpy(out, in, (size_t)slice_bytes);
            continue;
        }
        for (int32_t at = 0; at < p->slice_elements; at++) {
            if (p->is_real) {
                scatter_nd_real(out, in, at, p->reduction);
            } else {
                scatter_nd_integer(out, in, at, p);
            }
        }
    }
}

#endif
