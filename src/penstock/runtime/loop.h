/* loop.h: arithmetic for loop bounds.  Divisors are positive; division rounds down. */
#ifndef PENSTOCK_LOOP_H
#define PENSTOCK_LOOP_H

#include <stdint.h>

static inline int32_t penstock_min(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static inline int32_t penstock_max(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static inline int32_t penstock_divide(int32_t a, int32_t b) {
    return a / b - (a % b < 0);
}

static inline int32_t penstock_modulo(int32_t a, int32_t b) {
    return a % b < 0 ? a % b + b : a % b;
}

#endif
