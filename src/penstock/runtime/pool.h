/* pool.h: shared code of average and maximum pooling: the part of a window inside the tensor.
 *   x  (N, H,  W,  C)  int8
 *   y  (N, Ho, Wo, C)  int8 */
#ifndef PENSTOCK_POOL_H
#define PENSTOCK_POOL_H

#include "view.h"

/* Leading members of the parameter structures of pooling kernels. */
#define PENSTOCK_POOL_MEMBERS                                                                     \
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;                                                \
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;    \
    int32_t least, most

typedef struct {
    int32_t lower, upper;
} penstock_interval;

/* Input interval under the window at output index `out`, clipped to [0, extent). */
static inline penstock_interval penstock_under(int32_t out, int32_t stride, int32_t pad,
                                               int32_t size, int32_t extent) {
    penstock_interval found = {out * stride - pad, out * stride - pad + size};
    found.lower = found.lower < 0 ? 0 : found.lower;
    found.upper = found.upper > extent ? extent : found.upper;
    return found;
}

#endif
