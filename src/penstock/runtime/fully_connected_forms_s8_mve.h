/* fully_connected_forms_s8_mve: matrix times vector with bias, requantisation and clamp, for cores
 * with MVE.  Each output is requantised in a form of its own.
 *   x  (B, I)  int8
 *   y  (B, O)  int8
 * The weights of four outputs are interleaved: the first vector of each output, then the second of
 * each, and so on; those beyond the last input or output are zero. */
#ifndef PENSTOCK_FULLY_CONNECTED_FORMS_S8_MVE_H
#define PENSTOCK_FULLY_CONNECTED_FORMS_S8_MVE_H

#include "certified.h"
#include "mve.h"
#include "view.h"

struct fully_connected_forms_s8_mve {
    int32_t batches, in_c, out_c, least, most;
    const int8_t *weights;
    const int32_t *bias;  /* corrected for the zero point of x */
    const int32_t *forms; /* see certified.h */
};

/* Sums of four outputs of a row of `count` inputs.  Returns the weights of the next four. */
static inline const int8_t *fully_connected_forms_s8_mve_sums(const int8_t *x, const int8_t *w,
                                                              int32_t count, int32_t *sums) {
#if PENSTOCK_HAS_MVE
    __asm__ volatile("movs r4,#0\n"
                     "mov r8,r4\n"
                     "mov r10,r4\n"
                     "mov r12,r4\n"
                     "wlstp.8 lr,%2,2f\n"
                     "1: vldrb.8 q0,[%0],#16\n"
                     "vldrb.8 q1,[%1],#16\n"
                     "vldrb.8 q2,[%1],#16\n"
                     "vmladava.s8 r4,q0,q1\n"
                     "vldrb.8 q1,[%1],#16\n"
                     "vmladava.s8 r8,q0,q2\n"
                     "vldrb.8 q2,[%1],#16\n"
                     "vmladava.s8 r10,q0,q1\n"
                     "vmladava.s8 r12,q0,q2\n"
                     "letp lr,1b\n"
                     "2: stm %3,{r4,r8,r10,r12}\n"
                     : "+r"(x), "+r"(w)
                     : "r"(count), "r"(sums)
                     : "r4", "r8", "r10", "r12", "q0", "q1", "q2", "lr", "cc", "memory");
    return w;
#else
    const int32_t steps = (count + PENSTOCK_VECTOR - 1) / PENSTOCK_VECTOR;
    for (int32_t o = 0; o < 4; o++) {
        sums[o] = 0;
        for (int32_t c = 0; c < count; c++) {
            const int32_t step = c / PENSTOCK_VECTOR * 4 + o;
            sums[o] += x[c] * w[step * PENSTOCK_VECTOR + c % PENSTOCK_VECTOR];
        }
    }
    return w + 4 * steps * PENSTOCK_VECTOR;
#endif
}

PENSTOCK_KERNEL void fully_connected_forms_s8_mve(const struct fully_connected_forms_s8_mve *p,
                                                  const penstock_source *x, const penstock_sink *y,
                                                  int32_t lower, int32_t upper) {
    (void)lower;
    (void)upper;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *in = x->base + batch * p->in_c;
        int8_t *out = y->base + batch * p->out_c;
        const int8_t *w = p->weights;
        for (int32_t o = 0; o < p->out_c; o += 4) {
            const int32_t count = p->out_c - o < 4 ? p->out_c - o : 4;
            int32_t sums[4];
            w = fully_connected_forms_s8_mve_sums(in, w, p->in_c, sums);
            penstock_certified_outputs(sums, p->bias + o, p->forms + 6 * o, count, p->least,
                                       p->most, out + o);
        }
    }
}

#endif
