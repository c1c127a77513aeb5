/* select_wide: elements of a if the condition holds, otherwise of b (select.h).
 *   condition  bool
 *   a, b, y    elements of `element_bytes` bytes */
#ifndef PENSTOCK_SELECT_WIDE_H
#define PENSTOCK_SELECT_WIDE_H

#include "select.h"
#include "integers.h"

struct select_wide {
    PENSTOCK_BROADCAST_MEMBERS;
    PENSTOCK_SELECT_MEMBERS;
    int32_t element_bytes;
};

#define PENSTOCK_ELEMENT(row, index) penstock_get_integer(row, index, p->element_bytes, 1)
PENSTOCK_KERNEL void select_wide(const struct select_wide *p, const penstock_source *x,
                                 const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_SELECT(int64_t, PENSTOCK_ELEMENT,
                    penstock_put_integer(out, w * p->out_c + c, p->element_bytes, chosen))
}
#undef PENSTOCK_ELEMENT

#endif
