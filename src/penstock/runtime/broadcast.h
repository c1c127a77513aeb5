/* broadcast.h: element-wise kernels of two inputs, which are broadcast along axes of extent 1.
 * Shapes are (N, H, W, C), padded with leading ones.  The step of an input along a broadcast axis
 * is 0; steps count rows along N and H, elements along W and C. */
#ifndef PENSTOCK_BROADCAST_H
#define PENSTOCK_BROADCAST_H

#include "view.h"

/* Leading members of the parameter structures of element-wise kernels. */
#define PENSTOCK_BROADCAST_MEMBERS                                                                \
    int32_t out_h, out_w, out_c;                                                                  \
    int32_t step0_n, step0_h, step0_w, step0_c;                                                   \
    int32_t step1_n, step1_h, step1_w, step1_c

#endif
