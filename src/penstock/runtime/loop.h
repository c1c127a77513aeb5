/* loop.h: loops, and arithmetic for their bounds.  Divisors are positive; division rounds down. */
#ifndef PENSTOCK_LOOP_H
#define PENSTOCK_LOOP_H

#include <stdint.h>

/* Executes short statements about element k for all k below `count`: with GCC, which does not unroll
 * loops, two at a time, in half as many branches. */
#if defined(__GNUC__) && !defined(__clang__)
#define PENSTOCK_BY_TWOS(count, ...)                                                              \
    int32_t k = 0;                                                                                \
    if ((count) & 1) {                                                                            \
        __VA_ARGS__;                                                                              \
        k++;                                                                                      \
    }                                                                                             \
    while (k < (count)) {                                                                         \
        {                                                                                         \
            __VA_ARGS__;                                                                          \
        }                                                                                         \
        k++;                                                                                      \
        {                                                                                         \
            __VA_ARGS__;                                                                          \
        }                                                                                         \
        k++;                                                                                      \
    }
#else
#define PENSTOCK_BY_TWOS(count, ...)                                                              \
    for (int32_t k = 0; k < (count); k++) {                                                       \
        __VA_ARGS__;                                                                              \
    }
#endif

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
