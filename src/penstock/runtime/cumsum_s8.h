/* cumsum_s8: sums of the elements up to each one, along one axis (cumsum.h).
 *   x, y  (outer, depth, inner)  int8
 * Sums begin with -zero, have 19 extra bits, and wrap around. */
#ifndef PENSTOCK_CUMSUM_S8_H
#define PENSTOCK_CUMSUM_S8_H

#include "cumsum.h"
#include "fixedpoint.h"

struct cumsum_s8 {
    PENSTOCK_CUMSUM_MEMBERS;
    int32_t zero, out_zero, out_multiplier, out_shift;
};

/* The sum with an element of x. */
static inline int32_t cumsum_s8_next(const struct cumsum_s8 *p, int32_t sum, int32_t element) {
    return (int32_t)((uint32_t)sum + (uint32_t)((element - p->zero) * (1 << 19)));
}

/* The element of y that represents a sum. */
static inline int8_t cumsum_s8_result(const struct cumsum_s8 *p, int32_t sum) {
    const int32_t scaled = penstock_multiply(sum, p->out_multiplier, p->out_shift);
    const int32_t bounded = penstock_clamp(scaled, -512, 512);
    return (int8_t)penstock_clamp(bounded + p->out_zero, -128, 127);
}

#define PENSTOCK_PUT_SUM(row, index, sum) ((row)[index] = cumsum_s8_result(p, sum))
PENSTOCK_KERNEL void cumsum_s8(const struct cumsum_s8 *p, const penstock_source *x,
                               const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_CUMSUM(int32_t, -p->zero * (1 << 19), cumsum_s8_next(p, sum, in[place]),
                    PENSTOCK_PUT_SUM)
}
#undef PENSTOCK_PUT_SUM

#endif
