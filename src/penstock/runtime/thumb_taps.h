/* thumb_taps.h: two pixels of a channel at a time, each channel with a window of its own.
 *
 * A tap is a pointer to the channels of one input pixel, from `first` on; those of the second output
 * pixel lie `advance` bytes further.  Each channel has a byte of weight for every tap, filled up
 * with zeros to words, and its scale, as thumb.h says. */
#ifndef PENSTOCK_THUMB_TAPS_H
#define PENSTOCK_THUMB_TAPS_H

#include "thumb.h"

#define PENSTOCK_THUMB_MOST_TAPS 25

struct penstock_thumb_taps {
    const int8_t *const *tap;
    const int8_t *weights; /* aligned to 4 bytes */
    int32_t first, end;    /* bytes from the taps to the first channel, and behind the last one */
    int32_t advance;
    int32_t count, is_signed;
};

#if PENSTOCK_HAS_THUMB

/* In the code below, r8 and r9 are the sums, r10 the channel, r11 the advance, r12 the end, r7 the
 * weights, r0 and r1 what leads from a tap to the inputs of both pixels.  Stack: out0, out1, taps. */
#define PENSTOCK_THUMB_TAP(at, weight)                                                            \
    "ldr r2,[sp,#" #at "]\n"                                                                      \
    "ldrsb r3,[r2,r0]\n"                                                                          \
    "ldrsb r4,[r2,r1]\n"                                                                          \
    "muls r3," weight "\n"                                                                        \
    "muls r4," weight "\n"
#define PENSTOCK_THUMB_ADD_TAP(at, weight)                                                        \
    PENSTOCK_THUMB_TAP(at, weight)                                                                \
    "add r8,r3\n"                                                                                 \
    "add r9,r4\n"
#define PENSTOCK_THUMB_THREE_TAPS(at)                                                             \
    "asrs r5,r5,#8\n"                                                                             \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_ADD_TAP(at, "r6")                                                              \
    "asrs r5,r5,#8\n"                                                                             \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_ADD_TAP(at + 4, "r6")                                                          \
    "asrs r5,r5,#8\n"                                                                             \
    PENSTOCK_THUMB_ADD_TAP(at + 8, "r5")

#define PENSTOCK_THUMB_NINE_TAPS(output)                                                          \
    PENSTOCK_THUMB_ENTER                                                                          \
    "sub sp,#44\n"                                                                                \
    "str r1,[sp]\n"                                                                               \
    "str r2,[sp,#4]\n"                                                                            \
    "ldm r0!,{r2,r3,r4,r5,r6}\n" /* tap .. advance */                                             \
    "mov r7,r3\n"                                                                                 \
    "mov r10,r4\n"                                                                                \
    "mov r12,r5\n"                                                                                \
    "mov r11,r6\n"                                                                                \
    "add r0,sp,#8\n"                                                                              \
    "ldm r2!,{r3-r6}\n"                                                                           \
    "stm r0!,{r3-r6}\n"                                                                           \
    "ldm r2!,{r1,r3-r6}\n"                                                                        \
    "stm r0!,{r1,r3-r6}\n"                                                                        \
    "mov r0,r10\n"                                                                                \
    "1:\n" /* a channel more */                                                                   \
    "mov r1,r0\n"                                                                                 \
    "add r1,r11\n"                                                                                \
    "ldm r7!,{r5}\n"                                                                              \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_TAP(8, "r6")                                                                   \
    "mov r8,r3\n"                                                                                 \
    "mov r9,r4\n"                                                                                 \
    PENSTOCK_THUMB_THREE_TAPS(12)                                                                 \
    "ldm r7!,{r5}\n"                                                                              \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_ADD_TAP(24, "r6")                                                              \
    PENSTOCK_THUMB_THREE_TAPS(28)                                                                 \
    "ldm r7!,{r5}\n"                                                                              \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_ADD_TAP(40, "r6")                                                              \
    output("r8", "r9")                                                                            \
    "mov r0,r10\n"                                                                                \
    "adds r0,r0,#1\n"                                                                             \
    "mov r10,r0\n"                                                                                \
    "cmp r0,r12\n"                                                                                \
    "beq 2f\n"                                                                                    \
    "b 1b\n"                                                                                      \
    "2:\n"                                                                                        \
    "add sp,#44\n"                                                                                \
    PENSTOCK_THUMB_LEAVE

/* Outputs of nine taps.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_nine_taps_plain(
    const struct penstock_thumb_taps *taps __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_NINE_TAPS(PENSTOCK_THUMB_PLAIN));
}

/* The same with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_nine_taps_signed(
    const struct penstock_thumb_taps *taps __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_NINE_TAPS(PENSTOCK_THUMB_SIGNED));
}

#endif

/* Outputs of any number of taps; of one pixel, where both are the same. */
static inline void penstock_thumb_any_taps(const struct penstock_thumb_taps *taps, int8_t *out0,
                                           int8_t *out1) {
    const int8_t *w = taps->weights;
    for (int32_t c = taps->first; c < taps->end; c++) {
        int32_t sums[2] = {0, 0};
        for (int32_t k = 0; k < taps->count; k++) {
            sums[0] += w[k] * taps->tap[k][c];
            sums[1] += w[k] * taps->tap[k][c + taps->advance];
        }
        w += (taps->count + 3) / 4 * 4;
        penstock_thumb_output(w, taps->is_signed, sums[0], out0);
        w = penstock_thumb_output(w, taps->is_signed, sums[1], out1);
    }
}

static inline void penstock_thumb_run_taps(const struct penstock_thumb_taps *taps, int8_t *out0,
                                           int8_t *out1) {
#if PENSTOCK_HAS_THUMB
    if (taps->count == 9) {
        (taps->is_signed ? penstock_thumb_nine_taps_signed
                         : penstock_thumb_nine_taps_plain)(taps, out0, out1);
        return;
    }
#endif
    penstock_thumb_any_taps(taps, out0, out1);
}

#endif
