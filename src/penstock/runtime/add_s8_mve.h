/* add_s8_mve: an element-wise weighted sum of two tensors and a shift, for cores with MVE.
 *   a, b, y  int8, of one shape
 * Computes rows [lower, upper) of y; y may have the address of a or b. */
#ifndef PENSTOCK_ADD_S8_MVE_H
#define PENSTOCK_ADD_S8_MVE_H

#include "mve.h"
#include "view.h"

struct add_s8_mve {
    int32_t row_elements, left, right, offset, shift, least, most;
};

/* Elements of a row: y = saturated (a * left + b * right + offset) >> shift. */
static inline void add_s8_mve_row(const struct add_s8_mve *p, const int8_t *a, const int8_t *b,
                                  int8_t *out) {
#if PENSTOCK_HAS_MVE
    __asm__ volatile("vdup.32 q2,%[left]\n"
                     "wlstp.32 lr,%[count],2f\n"
                     "1: vldrb.s32 q0,[%[a]],#4\n"
                     "vldrb.s32 q1,[%[b]],#4\n"
                     "vmlas.s32 q0,q2,%[offset]\n"
                     "vmla.s32 q0,q1,%[right]\n"
                     "vqshl.s32 q0,%[shift]\n"
                     "vshr.s32 q0,q0,#24\n"
                     "vstrb.32 q0,[%[out]],#4\n"
                     "letp lr,1b\n"
                     "2:\n"
                     : [a] "+l"(a), [b] "+l"(b), [out] "+l"(out)
                     : [left] "r"(p->left), [right] "r"(p->right), [offset] "r"(p->offset),
                       [shift] "r"(24 - p->shift), [count] "r"(p->row_elements)
                     : "q0", "q1", "q2", "lr", "memory");
#else
    for (int32_t i = 0; i < p->row_elements; i++) {
        const int32_t y = (a[i] * p->left + b[i] * p->right + p->offset) >> p->shift;
        out[i] = (int8_t)(y < INT8_MIN ? INT8_MIN : (y > INT8_MAX ? INT8_MAX : y));
    }
#endif
}

PENSTOCK_KERNEL void add_s8_mve(const struct add_s8_mve *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        add_s8_mve_row(p, penstock_read_row(&x[0], row), penstock_read_row(&x[1], row), out);
        penstock_limit(out, p->least, p->most, p->row_elements);
    }
}

#endif
