/* floor_divide.h: division of integers, rounded towards minus infinity. */
#ifndef PENSTOCK_FLOOR_DIVIDE_H
#define PENSTOCK_FLOOR_DIVIDE_H

#include <stdint.h>

/* floor(a / b); 0 if b is 0.  The quotient of INT32_MIN and -1 wraps around. */
static inline int32_t penstock_floor_divide(int32_t a, int32_t b) {
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return (int32_t)(0U - (uint32_t)a);
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* a - b * floor(a / b); a if b is 0. */
static inline int32_t penstock_floor_modulo(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a - (uint32_t)b * (uint32_t)penstock_floor_divide(a, b));
}

#endif
