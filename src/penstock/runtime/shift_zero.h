/* shift_zero: uint8 elements as int8, less by 128, or int8 elements as uint8.
 *   x, y  int8 or uint8     rows of `width` elements
 * Both are one exclusive or of the sign bit.  Computes rows [lower, upper) of y, which may have the
 * address of x. */
#ifndef PENSTOCK_SHIFT_ZERO_H
#define PENSTOCK_SHIFT_ZERO_H

#include "view.h"

struct shift_zero {
    int32_t width;
};

PENSTOCK_KERNEL void shift_zero(const struct shift_zero *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *in = penstock_read_row(x, row);
        int8_t *out = penstock_write_row(y, row);
        int32_t k = 0;
        for (; k + 4 <= p->width; k += 4) {
            uint32_t four;
            memcpy(&four, in + k, 4);
            four ^= UINT32_C(0x80808080);
            memcpy(out + k, &four, 4);
        }
        for (; k < p->width; k++) {
            out[k] = (int8_t)(in[k] ^ -128);
        }
    }
}

#endif
