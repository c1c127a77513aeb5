/* mul_s8_dsp: a * b, element by element, with certified requantisation, for cores with the DSP
 * extension; inputs may be broadcast.
 *   a, b, y  int8
 * t = ((a - zero0) * (b - zero1) << 12) + offset,   t -= correction if t < 0,
 *     y = saturated (base + (t * factor >> 32)) >> shift, then clamped
 * Computes rows [lower, upper) of y, which may have the address of a or b. */
#ifndef PENSTOCK_MUL_S8_DSP_H
#define PENSTOCK_MUL_S8_DSP_H

#include "stretched.h"

struct mul_s8_dsp {
    PENSTOCK_STRETCHED_MEMBERS;
    int32_t zero0, zero1, offset, correction, factor, base, shift;
};

#if PENSTOCK_HAS_DSP

#define MUL_S8_DSP_PRODUCTS                                                                       \
    "ldr r11,[sp]\n"                                                                              \
    "ldr r12,[sp,#4]\n"                                                                           \
    "sxtab16 lr,r11,r9\n"                                                                         \
    "sxtab16 r9,r11,r9,ror #8\n"                                                                  \
    "sxtab16 r11,r12,r10\n"                                                                       \
    "sxtab16 r10,r12,r10,ror #8\n"                                                                \
    "smulbb r12,lr,r11\n"                                                                         \
    "smultt lr,lr,r11\n"                                                                          \
    "smulbb r11,r9,r10\n"                                                                         \
    "smultt r9,r9,r10\n"                                                                          \
    "add r12,r4,r12,lsl #12\n"                                                                    \
    "add r11,r4,r11,lsl #12\n"                                                                    \
    "add lr,r4,lr,lsl #12\n"                                                                      \
    "add r9,r4,r9,lsl #12\n"

#define MUL_S8_DSP_CORRECT(t)                                                                     \
    "and r10,r5," t ",asr #31\n"                                                                  \
    "sub " t "," t ",r10\n"

#define MUL_S8_DSP_SCALE                                                                          \
    "smmla r12,r12,r6,r7\n"                                                                       \
    "smmla r11,r11,r6,r7\n"                                                                       \
    "smmla lr,lr,r6,r7\n"                                                                         \
    "smmla r9,r9,r6,r7\n"

/* Without corrections. */
static __attribute__((naked, noinline)) void mul_s8_dsp_plain(
    const struct penstock_pairs *pairs __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_PAIRS_FOUR MUL_S8_DSP_PRODUCTS MUL_S8_DSP_SCALE PENSTOCK_PAIRS_STORE);
}

static __attribute__((naked, noinline)) void mul_s8_dsp_signed(
    const struct penstock_pairs *pairs __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_PAIRS_FOUR MUL_S8_DSP_PRODUCTS MUL_S8_DSP_CORRECT("r12")
                         MUL_S8_DSP_CORRECT("r11") MUL_S8_DSP_CORRECT("lr") MUL_S8_DSP_CORRECT("r9")
                             MUL_S8_DSP_SCALE PENSTOCK_PAIRS_STORE);
}

#else

/* The output of a pair. */
static inline int32_t mul_s8_dsp_one(const struct penstock_pairs *pairs, int32_t a, int32_t b) {
    const int32_t *number = pairs->number;
    const int32_t product = (a + (int16_t)pairs->zero0) * (b + (int16_t)pairs->zero1);
    const int32_t t = (int32_t)(((uint32_t)product << 12) + (uint32_t)number[0]);
    const int32_t corrected = penstock_correct(t, number[1]);
    return penstock_saturate(penstock_high_product(corrected, number[2], number[3]) >> number[4]);
}

static void mul_s8_dsp_plain(const struct penstock_pairs *pairs) {
    penstock_spelled_pairs(pairs, mul_s8_dsp_one);
}

static void mul_s8_dsp_signed(const struct penstock_pairs *pairs) {
    penstock_spelled_pairs(pairs, mul_s8_dsp_one);
}

#endif

PENSTOCK_KERNEL void mul_s8_dsp(const struct mul_s8_dsp *p, const penstock_source *x,
                                const penstock_sink *y, int32_t lower, int32_t upper) {
    struct penstock_pairs pairs = {PENSTOCK_STRETCHED_PAIRS(p),
                                   .number = {p->offset, p->correction, p->factor, p->base, p->shift},
                                   .zero0 = penstock_both_halves(-p->zero0),
                                   .zero1 = penstock_both_halves(-p->zero1)};
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = row / p->out_h;
        const int32_t h = row % p->out_h;
        const int8_t *a = penstock_read_row(&x[0], n * p->step0_n + h * p->step0_h);
        const int8_t *b = penstock_read_row(&x[1], n * p->step1_n + h * p->step1_h);
        int8_t *out = penstock_write_row(y, row);
        penstock_stretched_row(&pairs, p->correction ? mul_s8_dsp_signed : mul_s8_dsp_plain, p->calls, a, b,
                               out);
        penstock_clamp_row(out, p->calls * p->runs * p->length, p->least, p->most);
    }
}

#endif
