/* thumb_row.h: dot products of one row of inputs with four outputs at a time, requantised.
 *
 * The weights of four outputs are a word of four bytes per input, followed by the scale of each
 * output (thumb.h). */
#ifndef PENSTOCK_THUMB_ROW_H
#define PENSTOCK_THUMB_ROW_H

#include "thumb.h"

struct penstock_thumb_row {
    const int8_t *row;
    const int8_t *weights; /* aligned to 4 bytes */
    int32_t depth;         /* inputs, at least 1 */
    int32_t groups;        /* of four outputs, at least 1 */
};

#if PENSTOCK_HAS_THUMB

/* In the code below, r8 to r11 are the sums, r6 is the row, r3 the input, r7 the weights, r12 the
 * number of inputs processed in groups of four.  Stack: output (twice), row, depth, remaining
 * groups. */
#define PENSTOCK_THUMB_INPUT(w)                                                                   \
    "ldrsb r2,[r6,r3]\n"                                                                          \
    "adds r3,r3,#1\n"                                                                             \
    "sxtb r1," w "\n"                                                                             \
    "muls r1,r2\n"                                                                                \
    "add r8,r1\n"                                                                                 \
    "asrs " w "," w ",#8\n"                                                                       \
    "sxtb r1," w "\n"                                                                             \
    "muls r1,r2\n"                                                                                \
    "add r9,r1\n"                                                                                 \
    "asrs " w "," w ",#8\n"                                                                       \
    "sxtb r1," w "\n"                                                                             \
    "muls r1,r2\n"                                                                                \
    "add r10,r1\n"                                                                                \
    "asrs " w "," w ",#8\n"                                                                       \
    "muls " w ",r2\n"                                                                             \
    "add r11," w "\n"

#define PENSTOCK_THUMB_ROW(output)                                                                \
    PENSTOCK_THUMB_ENTER                                                                          \
    "sub sp,#20\n"                                                                                \
    "str r1,[sp]\n"                                                                               \
    "str r1,[sp,#4]\n"                                                                            \
    "ldm r0!,{r4-r7}\n"                                                                           \
    "str r4,[sp,#8]\n"                                                                            \
    "str r6,[sp,#12]\n"                                                                           \
    "str r7,[sp,#16]\n"                                                                           \
    "mov r7,r5\n"                                                                                 \
    "lsrs r6,r6,#2\n"                                                                             \
    "lsls r6,r6,#2\n"                                                                             \
    "mov r12,r6\n"                                                                                \
    "1:\n" /* next four outputs */                                                                \
    "ldr r6,[sp,#8]\n"                                                                            \
    "movs r3,#0\n"                                                                                \
    "mov r8,r3\n"                                                                                 \
    "mov r9,r3\n"                                                                                 \
    "mov r10,r3\n"                                                                                \
    "mov r11,r3\n"                                                                                \
    "cmp r3,r12\n"                                                                                \
    "beq 3f\n"                                                                                    \
    "2:\n" /* next four inputs */                                                                 \
    "ldm r7!,{r0,r4,r5}\n"                                                                        \
    PENSTOCK_THUMB_INPUT("r0")                                                                    \
    PENSTOCK_THUMB_INPUT("r4")                                                                    \
    PENSTOCK_THUMB_INPUT("r5")                                                                    \
    "ldm r7!,{r0}\n"                                                                              \
    PENSTOCK_THUMB_INPUT("r0")                                                                    \
    "cmp r3,r12\n"                                                                                \
    "bne 2b\n"                                                                                    \
    "3:\n"                                                                                        \
    "ldr r5,[sp,#12]\n"                                                                           \
    "cmp r3,r5\n"                                                                                 \
    "beq 5f\n"                                                                                    \
    "4:\n" /* next input */                                                                       \
    "ldm r7!,{r0}\n"                                                                              \
    PENSTOCK_THUMB_INPUT("r0")                                                                    \
    "cmp r3,r5\n"                                                                                 \
    "bne 4b\n"                                                                                    \
    "5:\n"                                                                                        \
    output("r8", "r8")                                                                            \
    output("r9", "r9")                                                                            \
    output("r10", "r10")                                                                          \
    output("r11", "r11")                                                                          \
    "ldr r0,[sp,#16]\n"                                                                           \
    "subs r0,r0,#1\n"                                                                             \
    "str r0,[sp,#16]\n"                                                                           \
    "beq 6f\n"                                                                                    \
    "b 1b\n"                                                                                      \
    "6:\n"                                                                                        \
    "add sp,#20\n"                                                                                \
    PENSTOCK_THUMB_LEAVE

/* Outputs of a row.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_row_plain(
    const struct penstock_thumb_row *row __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_ROW(PENSTOCK_THUMB_PLAIN));
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_row_signed(
    const struct penstock_thumb_row *row __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_ROW(PENSTOCK_THUMB_SIGNED));
}

/* A sum that is not requantised. */
#define PENSTOCK_THUMB_SUM(sum, same)                                                             \
    "mov r0," sum "\n"                                                                            \
    "ldr r1,[sp]\n"                                                                               \
    "stm r1!,{r0}\n"                                                                              \
    "str r1,[sp]\n"

/* Sums of a row, not requantised.  No scales follow the weights. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_row_sums(
    const struct penstock_thumb_row *row __attribute__((unused)),
    int32_t *sums __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_ROW(PENSTOCK_THUMB_SUM));
}

#else

static inline void penstock_thumb_row_sums(const struct penstock_thumb_row *row, int32_t *sums) {
    const int8_t *w = row->weights;
    for (int32_t group = 0; group < row->groups; group++, sums += 4) {
        memset(sums, 0, 4 * sizeof *sums);
        for (int32_t k = 0; k < row->depth; k++, w += 4) {
            for (int32_t o = 0; o < 4; o++) {
                sums[o] += w[o] * row->row[k];
            }
        }
    }
}

static inline void penstock_thumb_row(const struct penstock_thumb_row *row, int32_t is_signed,
                                      int8_t *out) {
    const int8_t *w = row->weights;
    for (int32_t group = 0; group < row->groups; group++) {
        int32_t sums[4] = {0, 0, 0, 0};
        for (int32_t k = 0; k < row->depth; k++, w += 4) {
            for (int32_t o = 0; o < 4; o++) {
                sums[o] += w[o] * row->row[k];
            }
        }
        for (int32_t o = 0; o < 4; o++) {
            w = penstock_thumb_output(w, is_signed, sums[o], out);
        }
    }
}

static inline void penstock_thumb_row_plain(const struct penstock_thumb_row *row, int8_t *out) {
    penstock_thumb_row(row, 0, out);
}

static inline void penstock_thumb_row_signed(const struct penstock_thumb_row *row, int8_t *out) {
    penstock_thumb_row(row, 1, out);
}

#endif

#endif
