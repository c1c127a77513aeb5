/* select_s8: elements of a if the condition holds, otherwise of b (select.h).
 *   condition  bool
 *   a, b, y    int8 */
#ifndef PENSTOCK_SELECT_S8_H
#define PENSTOCK_SELECT_S8_H

#include "select.h"

struct select_s8 {
    PENSTOCK_BROADCAST_MEMBERS;
    PENSTOCK_SELECT_MEMBERS;
};

PENSTOCK_KERNEL void select_s8(const struct select_s8 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_SELECT(int8_t, penstock_get_s8, *out++ = chosen)
}

#endif
