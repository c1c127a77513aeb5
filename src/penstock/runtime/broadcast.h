/* broadcast.h: element-wise kernels of two inputs, which may stretch along axes of extent 1.
 * Shapes are (N, H, W, C), extended in front with ones; an input's step along an axis is 0 where it
 * is stretched: rows along N and H, elements along W and C. */
#ifndef PENSTOCK_BROADCAST_H
#define PENSTOCK_BROADCAST_H

#include "view.h"

/* Members that parameter structures of element-wise kernels begin with. */
#define PENSTOCK_BROADCAST_MEMBERS                                                                \
    int32_t out_n, out_h, out_w, out_c;                                                           \
    int32_t step0_n, step0_h, step0_w, step0_c;                                                   \
    int32_t step1_n, step1_h, step1_w, step1_c

#endif
