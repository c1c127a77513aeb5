/* thumb_taps.h: depthwise products of two pixels of a channel at a time.
 *
 * A tap is a pointer to the channels of one input pixel, starting at `first`; the taps of both
 * output pixels alternate.  Each channel has one weight byte per tap, padded with zeros to whole
 * words, followed by its scale (thumb.h). */
#ifndef PENSTOCK_THUMB_TAPS_H
#define PENSTOCK_THUMB_TAPS_H

#include "thumb.h"

#define PENSTOCK_THUMB_MOST_TAPS 25

struct penstock_thumb_taps {
    const int8_t *const *tap; /* of pixel 0, of pixel 1, and so on */
    const int8_t *weights;    /* aligned to 4 bytes */
    int32_t first, end;       /* byte offsets from the taps: the first channel, the end of the last one */
    int32_t count, is_signed;
};

#if PENSTOCK_HAS_THUMB

/* In the code below, r8 and r9 are the sums, r0 and r10 the channel, r1 are the taps, from r11 on,
 * r7 the weights, r12 the end.  Stack: out0, out1. */
#define PENSTOCK_THUMB_TAP(weight)                                                                \
    "ldm r1!,{r2,r3}\n"                                                                           \
    "ldrsb r2,[r2,r0]\n"                                                                          \
    "ldrsb r3,[r3,r0]\n"                                                                          \
    "muls r2," weight "\n"                                                                        \
    "muls r3," weight "\n"
#define PENSTOCK_THUMB_ADD_TAP(weight)                                                            \
    PENSTOCK_THUMB_TAP(weight)                                                                    \
    "add r8,r2\n"                                                                                 \
    "add r9,r3\n"
#define PENSTOCK_THUMB_THREE_TAPS(word)                                                           \
    "asrs " word "," word ",#8\n"                                                                 \
    "sxtb r6," word "\n"                                                                          \
    PENSTOCK_THUMB_ADD_TAP("r6")                                                                  \
    "asrs " word "," word ",#8\n"                                                                 \
    "sxtb r6," word "\n"                                                                          \
    PENSTOCK_THUMB_ADD_TAP("r6")                                                                  \
    "asrs " word "," word ",#8\n"                                                                 \
    PENSTOCK_THUMB_ADD_TAP(word)

#define PENSTOCK_THUMB_NINE_TAPS(output)                                                          \
    PENSTOCK_THUMB_ENTER                                                                          \
    "sub sp,#8\n"                                                                                 \
    "str r1,[sp]\n"                                                                               \
    "str r2,[sp,#4]\n"                                                                            \
    "ldm r0!,{r4-r7}\n" /* tap .. end */                                                          \
    "mov r11,r4\n"                                                                                \
    "mov r10,r6\n"                                                                                \
    "mov r12,r7\n"                                                                                \
    "mov r7,r5\n"                                                                                 \
    "1:\n" /* next channel */                                                                     \
    "mov r0,r10\n"                                                                                \
    "mov r1,r11\n"                                                                                \
    "ldm r7!,{r4,r5}\n"                                                                           \
    "sxtb r6,r4\n"                                                                                \
    PENSTOCK_THUMB_TAP("r6")                                                                      \
    "mov r8,r2\n"                                                                                 \
    "mov r9,r3\n"                                                                                 \
    PENSTOCK_THUMB_THREE_TAPS("r4")                                                               \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_ADD_TAP("r6")                                                                  \
    PENSTOCK_THUMB_THREE_TAPS("r5")                                                               \
    "ldm r7!,{r5}\n"                                                                              \
    "sxtb r6,r5\n"                                                                                \
    PENSTOCK_THUMB_ADD_TAP("r6")                                                                  \
    output("r8", "r9")                                                                            \
    "movs r0,#1\n"                                                                                \
    "add r10,r0\n"                                                                                \
    "cmp r10,r12\n"                                                                               \
    "beq 2f\n"                                                                                    \
    "b 1b\n"                                                                                      \
    "2:\n"                                                                                        \
    "add sp,#8\n"                                                                                 \
    PENSTOCK_THUMB_LEAVE

/* Outputs of nine taps.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_nine_taps_plain(
    const struct penstock_thumb_taps *taps __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_NINE_TAPS(PENSTOCK_THUMB_PLAIN));
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_nine_taps_signed(
    const struct penstock_thumb_taps *taps __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_NINE_TAPS(PENSTOCK_THUMB_SIGNED));
}

#endif

/* Computes outputs of any number of taps. */
static inline void penstock_thumb_any_taps(const struct penstock_thumb_taps *taps, int8_t *out0,
                                           int8_t *out1) {
    const int8_t *w = taps->weights;
    for (int32_t c = taps->first; c < taps->end; c++) {
        int32_t sums[2] = {0, 0};
        for (int32_t k = 0; k < taps->count; k++) {
            sums[0] += w[k] * taps->tap[2 * k][c];
            sums[1] += w[k] * taps->tap[2 * k + 1][c];
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
