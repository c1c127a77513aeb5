/* row_tile.h: dot products of one row of inputs with four outputs at a time, requantised.
 *
 * tile.h defines the layout of weights and scales.  `window` is the row itself: bytes at any
 * address, read in groups of four.  `pairs` is even; the even bytes of each group are its first
 * pair. */
#ifndef PENSTOCK_ROW_TILE_H
#define PENSTOCK_ROW_TILE_H

#include "tile.h"

#if PENSTOCK_HAS_DSP

/* In the code below, r4 and r5 are the sums of outputs 0 and 2; r2 and r3 those of 1 and 3, mixed
 * with them; r0 is the row, r1 the weights.  Stack: output, row, scales, shift, blocks of
 * sixteen inputs, fours beyond them, output's end. */
#define PENSTOCK_ROW_FOUR(x)                                                                      \
    "ldm r1!,{r8-r11}\n"                                                                          \
    "sxtb16 r7," x "\n"                                                                           \
    "sxtb16 " x "," x ",ror #8\n"                                                                 \
    "smlad r2,r7,r8,r2\n"                                                                         \
    "smlad r3,r7,r9,r3\n"                                                                         \
    "smlad r2," x ",r10,r2\n"                                                                     \
    "smlad r3," x ",r11,r3\n"                                                                     \
    "sxtb16 r8,r8\n"                                                                              \
    "sxtb16 r9,r9\n"                                                                              \
    "sxtb16 r10,r10\n"                                                                            \
    "sxtb16 r11,r11\n"                                                                            \
    "smlad r4,r7,r8,r4\n"                                                                         \
    "smlad r5,r7,r9,r5\n"                                                                         \
    "smlad r4," x ",r10,r4\n"                                                                     \
    "smlad r5," x ",r11,r5\n"

#define PENSTOCK_ROW_SUMS                                                                         \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#36\n"                                                                                \
    "ldm r0,{r3-r8}\n" /* window .. shift */                                                      \
    "lsr r10,r6,#3\n"                                                                             \
    "ubfx r11,r6,#1,#2\n"                                                                         \
    "add r12,r1,r7,lsl #2\n"                                                                      \
    "stm sp,{r1,r3,r5,r8,r10,r11,r12}\n"                                                          \
    "mov r1,r4\n"                                                                                 \
    "1:\n" /* next four outputs */                                                                \
    "ldr lr,[sp,#8]\n"                                                                            \
    "ldr r0,[sp,#4]\n"                                                                            \
    "ldr r12,[sp,#16]\n"                                                                          \
    "ldr r2,[lr]\n"                                                                               \
    "ldr r3,[lr,#4]\n"                                                                            \
    "movs r4,#0\n"                                                                                \
    "movs r5,#0\n"                                                                                \
    "cmp r12,#0\n"                                                                                \
    "beq 3f\n"                                                                                    \
    "2:\n"                                                                                        \
    "ldr r6,[r0]\n"                                                                               \
    "ldr lr,[r0,#4]\n"                                                                            \
    PENSTOCK_ROW_FOUR("r6")                                                                       \
    PENSTOCK_ROW_FOUR("lr")                                                                       \
    "ldr r6,[r0,#8]\n"                                                                            \
    "ldr lr,[r0,#12]\n"                                                                           \
    PENSTOCK_ROW_FOUR("r6")                                                                       \
    PENSTOCK_ROW_FOUR("lr")                                                                       \
    "adds r0,#16\n"                                                                               \
    "subs r12,#1\n"                                                                               \
    "bne 2b\n"                                                                                    \
    "3:\n"                                                                                        \
    "ldr r12,[sp,#20]\n"                                                                          \
    "cmp r12,#0\n"                                                                                \
    "beq 5f\n"                                                                                    \
    "4:\n"                                                                                        \
    "ldr r6,[r0],#4\n"                                                                            \
    PENSTOCK_ROW_FOUR("r6")                                                                       \
    "subs r12,#1\n"                                                                               \
    "bne 4b\n"                                                                                    \
    "5:\n" PENSTOCK_ROW_FRACTIONS

/* Sums with their fractions; r0 is the scales. */
#define PENSTOCK_ROW_FRACTIONS                                                                    \
    "ldr r0,[sp,#8]\n"                                                                            \
    "ldr r10,[r0,#48]\n"                                                                          \
    "ldr r12,[sp,#12]\n"                                                                          \
    "ldr r6,[r0,#8]\n"                                                                            \
    "ldr r7,[r0,#12]\n"                                                                           \
    "sub r2,r2,r4\n"                                                                              \
    "sub r3,r3,r5\n"                                                                              \
    "add r4,r6,r4,lsl #8\n"                                                                       \
    "add r5,r7,r5,lsl #8\n"

#define PENSTOCK_ROW_CORRECT(t, correction)                                                       \
    "and r11," correction "," t ",asr #31\n"                                                      \
    "sub " t "," t ",r11\n"

#define PENSTOCK_ROW_CORRECTIONS                                                                  \
    "ldr r6,[r0,#32]\n"                                                                           \
    "ldr r7,[r0,#36]\n"                                                                           \
    "ldr r8,[r0,#40]\n"                                                                           \
    "ldr r9,[r0,#44]\n"                                                                           \
    PENSTOCK_ROW_CORRECT("r4", "r6")                                                              \
    PENSTOCK_ROW_CORRECT("r2", "r7")                                                              \
    PENSTOCK_ROW_CORRECT("r5", "r8")                                                              \
    PENSTOCK_ROW_CORRECT("r3", "r9")

#define PENSTOCK_ROW_OUTPUTS                                                                      \
    "ldr r6,[r0,#16]\n"                                                                           \
    "ldr r7,[r0,#20]\n"                                                                           \
    "ldr r8,[r0,#24]\n"                                                                           \
    "ldr r9,[r0,#28]\n"                                                                           \
    "smmla r4,r4,r6,r10\n"                                                                        \
    "smmla r2,r2,r7,r10\n"                                                                        \
    "smmla r5,r5,r8,r10\n"                                                                        \
    "smmla r3,r3,r9,r10\n"                                                                        \
    "asr r2,r12\n"                                                                                \
    "asr r3,r12\n"                                                                                \
    "asr r4,r12\n"                                                                                \
    "asr r5,r12\n"                                                                                \
    "ssat r2,#8,r2\n"                                                                             \
    "ssat r3,#8,r3\n"                                                                             \
    "ssat r4,#8,r4\n"                                                                             \
    "ssat r5,#8,r5\n"                                                                             \
    "bfi r4,r2,#8,#8\n"                                                                           \
    "bfi r4,r5,#16,#8\n"                                                                          \
    "bfi r4,r3,#24,#8\n"                                                                          \
    "adds r0,#52\n"                                                                               \
    "str r0,[sp,#8]\n"                                                                            \
    "ldr r6,[sp]\n"                                                                               \
    "ldr r7,[sp,#24]\n"                                                                           \
    "str r4,[r6],#4\n"                                                                            \
    "str r6,[sp]\n"                                                                               \
    "cmp r6,r7\n"                                                                                 \
    "bne 1b\n"                                                                                    \
    "add sp,#36\n"                                                                                \
    "pop {r4-r11,pc}\n"

/* Outputs of a row.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_row_plain(
    const struct penstock_tile *tile __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_ROW_SUMS PENSTOCK_ROW_OUTPUTS);
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_row_signed(
    const struct penstock_tile *tile __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_ROW_SUMS PENSTOCK_ROW_CORRECTIONS PENSTOCK_ROW_OUTPUTS);
}

#else

static inline void penstock_row_signed(const struct penstock_tile *tile, int8_t *out) {
    for (int32_t o = 0; o < tile->quads * 4; o++) {
        const int8_t *w = tile->weights + (o / 4 * tile->pairs * 2 + o % 4 / 2) * 4;
        int32_t mixed = 0;
        int32_t lower = 0;
        for (int32_t k = 0; k < tile->pairs; k++, w += 8) {
            const uint32_t four = penstock_load_word(tile->window + k / 2 * 4);
            const uint32_t inputs = k % 2 ? penstock_odd_bytes(four) : penstock_even_bytes(four);
            const uint32_t word = penstock_load_word(w);
            mixed = penstock_add_lower(inputs, word, mixed);
            mixed = penstock_add_upper(inputs, word, mixed);
            lower = penstock_add_lower(inputs, penstock_even_bytes(word), lower);
            lower = penstock_add_upper(inputs, penstock_even_bytes(word), lower);
        }
        out[o] = penstock_tile_output(tile, o, mixed, lower);
    }
}

static inline void penstock_row_plain(const struct penstock_tile *tile, int8_t *out) {
    penstock_row_signed(tile, out);
}

#endif

#endif
