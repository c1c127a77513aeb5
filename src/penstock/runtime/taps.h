/* taps.h: depthwise products of four channels at a time, requantised.
 *
 * A tap is a pointer to the channels of one input pixel; from one output pixel to the next, all
 * taps advance by `advance` bytes.  Weights are stored tap by tap for four channels, then for the
 * next four.
 * Scales of four channels: their common base; offsets, corrections, factors, each of channels 0, 2,
 * 1, 3:
 *     t = (sum << 9) + offset,   t -= correction if t < 0,
 *     y = saturated (base + (t * factor >> 32)) >> shift */
#ifndef PENSTOCK_TAPS_H
#define PENSTOCK_TAPS_H

#include "dsp.h"

#define PENSTOCK_MOST_TAPS 25

struct penstock_taps {
    const int8_t *const *tap;
    const int8_t *weights; /* aligned to 4 bytes */
    const int32_t *scales;
    int32_t channels; /* a multiple of 4, not 0 */
    int32_t shift;
    int32_t advance;  /* bytes from the taps of one output pixel to those of the next */
    int32_t out_step; /* bytes from one output pixel to the next */
    int32_t pixels;   /* at least 1 */
    int32_t count;    /* taps */
};

#if PENSTOCK_HAS_DSP

/* In the code below, r2 .. r5 are the sums of channels 0, 2, 1, 3; r0 the weights; r1 the offset of
 * the channels from the taps.  Stack: nine taps, scales, r1's end, shift, output minus the advance
 * of the taps, parameters, remaining pixels. */
#define PENSTOCK_TAP(x, w)                                                                        \
    "sxtb16 r12," x ",ror #8\n"                                                                   \
    "sxtb16 lr," w ",ror #8\n"                                                                    \
    "sxtb16 " x "," x "\n"                                                                        \
    "sxtb16 " w "," w "\n"                                                                        \
    "smlabb r2," x "," w ",r2\n"                                                                  \
    "smlatt r3," x "," w ",r3\n"                                                                  \
    "smlabb r4,r12,lr,r4\n"                                                                       \
    "smlatt r5,r12,lr,r5\n"

#define PENSTOCK_THREE_TAPS(at)                                                                   \
    "ldr r6,[sp,#" #at "]\n"                                                                      \
    "ldr r7,[sp,#" #at " + 4]\n"                                                                  \
    "ldr r8,[sp,#" #at " + 8]\n"                                                                  \
    "ldr r6,[r6,r1]\n"                                                                            \
    "ldr r7,[r7,r1]\n"                                                                            \
    "ldr r8,[r8,r1]\n"                                                                            \
    "ldr r9,[r0,#" #at "]\n"                                                                      \
    "ldr r10,[r0,#" #at " + 4]\n"                                                                 \
    "ldr r11,[r0,#" #at " + 8]\n"                                                                 \
    PENSTOCK_TAP("r6", "r9")                                                                      \
    PENSTOCK_TAP("r7", "r10")                                                                     \
    PENSTOCK_TAP("r8", "r11")

#define PENSTOCK_TAPS_SUMS                                                                        \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#68\n"                                                                                \
    "mov r12,r0\n"                                                                                \
    "ldr lr,[r12]\n"                                                                              \
    "ldm lr,{r2-r10}\n"                                                                           \
    "stm sp,{r2-r10}\n"                                                                           \
    "ldr r3,[r12,#16]\n" /* shift, pixels */                                                      \
    "ldr r4,[r12,#28]\n"                                                                          \
    "str r3,[sp,#48]\n"                                                                           \
    "str r1,[sp,#52]\n"                                                                           \
    "str r12,[sp,#56]\n"                                                                          \
    "str r4,[sp,#60]\n"                                                                           \
    "movs r1,#0\n"                                                                                \
    "1:\n" /* next output pixel; r12: parameters */                                               \
    "ldr r0,[r12,#4]\n"                                                                           \
    "ldr r2,[r12,#8]\n"                                                                           \
    "ldr r3,[r12,#12]\n"                                                                          \
    "str r2,[sp,#36]\n"                                                                           \
    "adds r3,r1\n"                                                                                \
    "str r3,[sp,#40]\n"                                                                           \
    "2:\n" /* next four channels */                                                               \
    "movs r2,#0\n"                                                                                \
    "movs r3,#0\n"                                                                                \
    "movs r4,#0\n"                                                                                \
    "movs r5,#0\n"                                                                                \
    PENSTOCK_THREE_TAPS(0)                                                                        \
    PENSTOCK_THREE_TAPS(12)                                                                       \
    PENSTOCK_THREE_TAPS(24)                                                                       \
    "adds r0,#36\n"                                                                               \
    "ldr r6,[sp,#36]\n"                                                                           \
    "ldr r12,[sp,#48]\n"                                                                          \
    "ldr lr,[r6],#4\n" /* base */                                                                 \
    "ldm r6!,{r7-r10}\n" /* offsets */                                                            \
    "add r2,r7,r2,lsl #9\n"                                                                       \
    "add r3,r8,r3,lsl #9\n"                                                                       \
    "add r4,r9,r4,lsl #9\n"                                                                       \
    "add r5,r10,r5,lsl #9\n"

#define PENSTOCK_TAPS_CORRECT(t, correction)                                                      \
    "and r11," correction "," t ",asr #31\n"                                                      \
    "sub " t "," t ",r11\n"

#define PENSTOCK_TAPS_CORRECTIONS                                                                 \
    "ldm r6!,{r7-r10}\n"                                                                          \
    PENSTOCK_TAPS_CORRECT("r2", "r7")                                                             \
    PENSTOCK_TAPS_CORRECT("r3", "r8")                                                             \
    PENSTOCK_TAPS_CORRECT("r4", "r9")                                                             \
    PENSTOCK_TAPS_CORRECT("r5", "r10")

#define PENSTOCK_TAPS_OUTPUTS                                                                     \
    "ldm r6!,{r7-r10}\n" /* factors */                                                            \
    "smmla r2,r2,r7,lr\n"                                                                         \
    "smmla r3,r3,r8,lr\n"                                                                         \
    "smmla r4,r4,r9,lr\n"                                                                         \
    "smmla r5,r5,r10,lr\n"                                                                        \
    "asr r2,r12\n"                                                                                \
    "asr r3,r12\n"                                                                                \
    "asr r4,r12\n"                                                                                \
    "asr r5,r12\n"                                                                                \
    "ssat r2,#8,r2\n"                                                                             \
    "ssat r3,#8,r3\n"                                                                             \
    "ssat r4,#8,r4\n"                                                                             \
    "ssat r5,#8,r5\n"                                                                             \
    "bfi r2,r4,#8,#8\n"                                                                           \
    "bfi r2,r3,#16,#8\n"                                                                          \
    "bfi r2,r5,#24,#8\n"                                                                          \
    "ldr r7,[sp,#52]\n"                                                                           \
    "ldr r8,[sp,#40]\n"                                                                           \
    "str r6,[sp,#36]\n"                                                                           \
    "str r2,[r7,r1]\n"                                                                            \
    "adds r1,#4\n"                                                                                \
    "cmp r1,r8\n"                                                                                 \
    "bne 2b\n"                                                                                    \
    "ldr r12,[sp,#56]\n" /* to the next output pixel */                                           \
    "ldr r2,[sp,#60]\n"                                                                           \
    "ldr r3,[r12,#12]\n" /* channels, advance, out_step */                                        \
    "ldr r4,[r12,#20]\n"                                                                          \
    "ldr r5,[r12,#24]\n"                                                                          \
    "subs r1,r3\n"                                                                                \
    "adds r1,r4\n"                                                                                \
    "adds r7,r5\n"                                                                                \
    "subs r7,r4\n"                                                                                \
    "str r7,[sp,#52]\n"                                                                           \
    "subs r2,#1\n"                                                                                \
    "str r2,[sp,#60]\n"                                                                           \
    "bne 1b\n"                                                                                    \
    "add sp,#68\n"                                                                                \
    "pop {r4-r11,pc}\n"

/* Output pixels of nine taps.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_nine_taps_plain(
    const struct penstock_taps *taps __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_TAPS_SUMS "adds r6,#16\n" PENSTOCK_TAPS_OUTPUTS);
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_nine_taps_signed(
    const struct penstock_taps *taps __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_TAPS_SUMS PENSTOCK_TAPS_CORRECTIONS PENSTOCK_TAPS_OUTPUTS);
}

#endif

/* Output of a channel, computed from its sum. */
static inline uint32_t penstock_taps_output(const struct penstock_taps *taps, int32_t sum,
                                            const int32_t *scale,
                                            int32_t base) {
    const int32_t t = (int32_t)(((uint32_t)sum << 9) + (uint32_t)scale[0]);
    const int32_t high = penstock_high_product(penstock_correct(t, scale[4]), scale[8], base);
    return (uint8_t)(int8_t)penstock_saturate(high >> taps->shift);
}

/* Computes output pixels of any number of taps. */
static inline void penstock_any_taps(const struct penstock_taps *taps, int8_t *out) {
    for (int32_t pixel = 0; pixel < taps->pixels; pixel++, out += taps->out_step) {
        const int8_t *w = taps->weights;
        const int32_t *scale = taps->scales;
        for (int32_t c = 0; c < taps->channels; c += 4, scale += 13) {
            int32_t sum[4] = {0, 0, 0, 0};
            for (int32_t k = 0; k < taps->count; k++, w += 4) {
                const uint32_t x =
                    penstock_load_word(taps->tap[k] + pixel * taps->advance + c);
                const uint32_t weights = penstock_load_word(w);
                const uint32_t even = penstock_even_bytes(x);
                const uint32_t odd = penstock_odd_bytes(x);
                sum[0] = penstock_add_lower(even, penstock_even_bytes(weights), sum[0]);
                sum[1] = penstock_add_upper(even, penstock_even_bytes(weights), sum[1]);
                sum[2] = penstock_add_lower(odd, penstock_odd_bytes(weights), sum[2]);
                sum[3] = penstock_add_upper(odd, penstock_odd_bytes(weights), sum[3]);
            }
            const int32_t base = scale[0];
            penstock_store_word(
                out + c, penstock_taps_output(taps, sum[0], scale + 1, base) |
                             penstock_taps_output(taps, sum[2], scale + 3, base) << 8 |
                             penstock_taps_output(taps, sum[1], scale + 2, base) << 16 |
                             penstock_taps_output(taps, sum[3], scale + 4, base) << 24);
        }
    }
}

static inline void penstock_run_taps(const struct penstock_taps *taps, int32_t is_signed,
                                     int8_t *out) {
#if PENSTOCK_HAS_DSP
    if (taps->count == 9) {
        (is_signed ? penstock_nine_taps_signed : penstock_nine_taps_plain)(taps, out);
        return;
    }
#endif
    (void)is_signed;
    penstock_any_taps(taps, out);
}

#endif
