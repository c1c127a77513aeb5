/* add_s8_dsp: an element-wise weighted sum of two tensors and a shift, for cores with the DSP
 * extension; inputs may be broadcast.
 *   a, b, y  int8
 *     y = saturated (a * left + b * right + offset) >> shift, then clamped
 * Computes rows [lower, upper) of y, which may have the address of a or b. */
#ifndef PENSTOCK_ADD_S8_DSP_H
#define PENSTOCK_ADD_S8_DSP_H

#include "stretched.h"

struct add_s8_dsp {
    PENSTOCK_STRETCHED_MEMBERS;
    int32_t left, right, offset, shift;
};

#if PENSTOCK_HAS_DSP

#define ADD_S8_DSP_SUM(sum, other)                                                                \
    "mla " sum "," sum ",r4,r6\n"                                                                 \
    "mla " sum "," other ",r5," sum "\n"

static __attribute__((naked, noinline)) void add_s8_dsp_fours(
    const struct penstock_pairs *pairs __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_PAIRS_FOUR
                     "sxtb r12,r9\n"
                     "sxtb r11,r10\n" ADD_S8_DSP_SUM("r12", "r11")
                     "sxtb r11,r9,ror #8\n"
                     "sxtb lr,r10,ror #8\n" ADD_S8_DSP_SUM("r11", "lr")
                     "sxtb lr,r9,ror #16\n"
                     "sxtb r7,r10,ror #16\n" ADD_S8_DSP_SUM("lr", "r7")
                     "asr r9,#24\n"
                     "asr r10,#24\n" ADD_S8_DSP_SUM("r9", "r10") PENSTOCK_PAIRS_STORE);
}

#else

/* The output of a pair. */
static inline int32_t add_s8_dsp_one(const struct penstock_pairs *pairs, int32_t a, int32_t b) {
    const int32_t *number = pairs->number;
    return penstock_saturate((a * number[0] + b * number[1] + number[2]) >> number[4]);
}

static void add_s8_dsp_fours(const struct penstock_pairs *pairs) {
    penstock_spelled_pairs(pairs, add_s8_dsp_one);
}

#endif

PENSTOCK_KERNEL void add_s8_dsp(const struct add_s8_dsp *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    struct penstock_pairs pairs = {PENSTOCK_STRETCHED_PAIRS(p),
                                   .number = {p->left, p->right, p->offset, 0, p->shift}};
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        penstock_stretched_row(&pairs, add_s8_dsp_fours, p->calls, a, b,
                               out);
        penstock_clamp_row(out, p->calls * p->runs * p->length, p->least, p->most);
    }
}

#endif
