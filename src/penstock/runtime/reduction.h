/* reduction.h: kernels that reduce whole axes: the input region of an output element.
 *   x  (N, in_h, in_w, in_c)
 *   y  the same, extent 1 along reduced axes
 * An output element spans the whole extent along a reduced axis and 1 along any other. */
#ifndef PENSTOCK_REDUCTION_H
#define PENSTOCK_REDUCTION_H

#include "view.h"

/* Leading members of the parameter structures of reductions. */
#define PENSTOCK_REDUCTION_MEMBERS                                                                \
    int32_t in_h, in_w, in_c;                                                                     \
    int32_t span_n, span_h, span_w, span_c

#endif
