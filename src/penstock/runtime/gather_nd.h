/* gather_nd: slices of a tensor at computed positions.
 *   x[0]  any shape; a slice has slice_bytes
 *   x[1]  `count` positions of `depth` indices  int32
 *   y     one slice for each position
 * extents[k] and strides[k] are extent and bytes of axis k of x[0].  Indices are clamped.  Computes
 * all rows of y.
 * Source: TensorFlow Lite, micro/kernels/gather_nd.cc. */
#ifndef PENSTOCK_GATHER_ND_H
#define PENSTOCK_GATHER_ND_H

#include "copy.h"
#include "fixedpoint.h"
#include "wide.h"

struct gather_nd {
    int32_t count, depth, slice_bytes;
    const int32_t *extents, *strides;
};

PENSTOCK_KERNEL void gather_nd(const struct gather_nd *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    const int8_t *indices = penstock_read_row(&x[1], 0);
    int8_t *out = penstock_write_row(y, 0);
    for (int32_t k = 0; k < p->count; k++) {
        const int8_t *in = penstock_read_row(&x[0], 0);
        for (int32_t axis = 0; axis < p->depth; axis++) {
            const int32_t index = penstock_get_s32(indices, k * p->depth + axis);
            in += penstock_clamp(index, 0, p->extents[axis] - 1) * p->strides[axis];
        }
        penstock_copy(out + k * p->slice_bytes, in, p->slice_bytes);
    }
}

#endif
