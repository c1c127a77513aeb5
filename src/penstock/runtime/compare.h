/* compare.h: relations between two numbers, for element-wise comparisons. */
#ifndef PENSTOCK_COMPARE_H
#define PENSTOCK_COMPARE_H

#include "broadcast.h"

/* Last member of the parameter structures of comparisons. */
#define PENSTOCK_RELATION_MEMBER                                                                  \
    int32_t relation /* sum of 1: holds for a < b, 2: for a = b, 4: for a > b */

/* Whether the relation holds between two numbers, neither of which is NaN. */
#define PENSTOCK_HOLDS(relation, a, b) (((relation) >> (((a) > (b)) - ((a) < (b)) + 1)) & 1)

#endif
