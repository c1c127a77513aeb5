/* pool.h: shared code of average and maximum pooling: the taps of a window inside the tensor.
 *   x  (N, H,  W,  C)  int8
 *   y  (N, Ho, Wo, C)  int8 */
#ifndef PENSTOCK_POOL_H
#define PENSTOCK_POOL_H

#include "window.h"

/* Leading members of the parameter structures of pooling kernels. */
#define PENSTOCK_POOL_MEMBERS                                                                     \
    int32_t in_h, in_w, in_c, out_h, out_w, out_c;                                                \
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;    \
    int32_t least, most

/* Taps inside [0, extent): tap k is at first + k * dilation.  Without dilation, none is divided. */
static inline penstock_span penstock_pool_taps(int32_t first, int32_t taps, int32_t dilation,
                                               int32_t extent) {
    if (dilation != 1) {
        return penstock_taps_inside(first, taps, dilation, extent);
    }
    const penstock_span inside = {first < 0 ? -first : 0,
                                  extent - first < taps ? extent - first : taps};
    return inside;
}

#endif
