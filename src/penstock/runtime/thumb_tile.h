/* thumb_tile.h: dot products of two pixels with two output channels at a time, requantised.
 *
 * A window has one word per input of both pixels, x0 + 65536 * x1; its product with a weight holds
 * the products of both pixels.  Such products are added in one word as long as both sums fit 16
 * bits. The taps of such a sum are a block; after each block, both sums are added to their totals.
 * The weights of two channels are the blocks of the whole window, followed by the scale of each
 * channel.  A block has a word of four bytes per two taps: tap 0 of channels 0 and 1, tap 1 of
 * channels 0 and 1.  The second word of a block is the branch offset into the unrolled code,
 * -(24 + 32 * words). */
#ifndef PENSTOCK_THUMB_TILE_H
#define PENSTOCK_THUMB_TILE_H

#include "thumb.h"

struct penstock_thumb_tile {
    const int8_t *window; /* aligned to 4 bytes, as the weights */
    const int8_t *end;    /* of the window; an even number of words */
    const int8_t *weights;
    int32_t groups;       /* of two channels, at least 1 */
};

#if PENSTOCK_HAS_THUMB

/* In the code below, r0 and r1 are the block's sums of channels 0 and 1, r8 to r11 the totals of
 * channel 0 for pixels 0 and 1 and of channel 1; r6 is the window, r7 the weights, r12 the window's
 * end.  Stack: out0, out1, window, remaining groups. */
#define PENSTOCK_THUMB_WORD                                                                       \
    "ldm r6!,{r4,r5}\n"                                                                           \
    "ldm r7!,{r2}\n"                                                                              \
    "sxtb r3,r2\n"                                                                                \
    "muls r3,r4\n"                                                                                \
    "adds r0,r0,r3\n"                                                                             \
    "asrs r2,r2,#8\n"                                                                             \
    "sxtb r3,r2\n"                                                                                \
    "muls r4,r3\n"                                                                                \
    "adds r1,r1,r4\n"                                                                             \
    "asrs r2,r2,#8\n"                                                                             \
    "sxtb r3,r2\n"                                                                                \
    "muls r3,r5\n"                                                                                \
    "adds r0,r0,r3\n"                                                                             \
    "asrs r2,r2,#8\n"                                                                             \
    "muls r5,r2\n"                                                                                \
    "adds r1,r1,r5\n"

/* The first word of a block and the jump; 28 bytes before the address that the jump is relative
 * to. */
#define PENSTOCK_THUMB_FIRST                                                                      \
    "ldm r7!,{r2,r3}\n"                                                                           \
    "ldm r6!,{r4,r5}\n"                                                                           \
    "sxtb r0,r2\n"                                                                                \
    "muls r0,r4\n"                                                                                \
    "asrs r2,r2,#8\n"                                                                             \
    "sxtb r1,r2\n"                                                                                \
    "muls r1,r4\n"                                                                                \
    "asrs r2,r2,#8\n"                                                                             \
    "sxtb r4,r2\n"                                                                                \
    "muls r4,r5\n"                                                                                \
    "adds r0,r0,r4\n"                                                                             \
    "asrs r2,r2,#8\n"                                                                             \
    "muls r2,r5\n"                                                                                \
    "adds r1,r1,r2\n"                                                                             \
    "add pc,r3\n"                                                                                 \
    "nop\n"

#define PENSTOCK_THUMB_PART(sums, total0, total1)                                                 \
    "sxth r2," sums "\n"                                                                          \
    "add " total0 ",r2\n"                                                                         \
    "subs " sums "," sums ",r2\n"                                                                 \
    "asrs " sums "," sums ",#16\n"                                                                \
    "add " total1 "," sums "\n"

/* A word of a window, in `a`. */
#define PENSTOCK_THUMB_INPUTS(a, b)                                                               \
    "ldrsb " a ",[r0,r4]\n"                                                                       \
    "ldrsb " b ",[r1,r4]\n"                                                                       \
    "lsls " b "," b ",#16\n"                                                                      \
    "adds " a "," a "," b "\n"                                                                    \
    "adds r4,r4,#1\n"

#define PENSTOCK_THUMB_TILE(output)                                                               \
    PENSTOCK_THUMB_ENTER                                                                          \
    "sub sp,#16\n"                                                                                \
    "str r1,[sp]\n"                                                                               \
    "str r2,[sp,#4]\n"                                                                            \
    "ldm r0!,{r4-r7}\n"                                                                           \
    "str r4,[sp,#8]\n"                                                                            \
    "mov r12,r5\n"                                                                                \
    "str r7,[sp,#12]\n"                                                                           \
    "mov r7,r6\n"                                                                                 \
    "1:\n" /* next two channels */                                                                \
    "ldr r6,[sp,#8]\n"                                                                            \
    "movs r0,#0\n"                                                                                \
    "mov r8,r0\n"                                                                                 \
    "mov r9,r0\n"                                                                                 \
    "mov r10,r0\n"                                                                                \
    "mov r11,r0\n"                                                                                \
    "b 3f\n"                                                                                      \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_WORD                                                                           \
    PENSTOCK_THUMB_PART("r0", "r8", "r9")                                                         \
    PENSTOCK_THUMB_PART("r1", "r10", "r11")                                                       \
    "cmp r6,r12\n"                                                                                \
    "beq 4f\n"                                                                                    \
    "3:\n" /* next block */                                                                       \
    PENSTOCK_THUMB_FIRST                                                                          \
    "4:\n"                                                                                        \
    output("r8", "r9")                                                                            \
    output("r10", "r11")                                                                          \
    "ldr r0,[sp,#12]\n"                                                                           \
    "subs r0,r0,#1\n"                                                                             \
    "str r0,[sp,#12]\n"                                                                           \
    "beq 5f\n"                                                                                    \
    "b 1b\n"                                                                                      \
    "5:\n"                                                                                        \
    "add sp,#16\n"                                                                                \
    PENSTOCK_THUMB_LEAVE

/* Writes `count` inputs of two pixels to a window, which is aligned to 4 bytes.  Returns its
 * end. */
__attribute__((naked, noinline, unused)) static int8_t *penstock_thumb_pack(
    const int8_t *a __attribute__((unused)), const int8_t *b __attribute__((unused)),
    int32_t count __attribute__((unused)), int8_t *window __attribute__((unused))) {
    __asm__ volatile(".syntax unified\n"
                     "push {r4-r7,lr}\n"
                     "movs r4,#0\n"
                     "lsrs r7,r2,#2\n"
                     "lsls r7,r7,#2\n"
                     "mov r12,r7\n"
                     "beq 2f\n"
                     "1:\n" /* next four inputs */
                     PENSTOCK_THUMB_INPUTS("r5", "r6")
                     PENSTOCK_THUMB_INPUTS("r6", "r7")
                     "stm r3!,{r5,r6}\n"
                     PENSTOCK_THUMB_INPUTS("r5", "r6")
                     PENSTOCK_THUMB_INPUTS("r6", "r7")
                     "stm r3!,{r5,r6}\n"
                     "cmp r4,r12\n"
                     "bne 1b\n"
                     "2:\n"
                     "cmp r4,r2\n"
                     "beq 4f\n"
                     "3:\n"
                     PENSTOCK_THUMB_INPUTS("r5", "r6")
                     "stm r3!,{r5}\n"
                     "cmp r4,r2\n"
                     "bne 3b\n"
                     "4:\n"
                     "mov r0,r3\n"
                     "pop {r4-r7,pc}\n");
}

/* Computes the outputs of both pixels; if `out0` equals `out1`, the windows are the same.  Without
 * corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_tile_plain(
    const struct penstock_thumb_tile *tile __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_TILE(PENSTOCK_THUMB_PLAIN));
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_thumb_tile_signed(
    const struct penstock_thumb_tile *tile __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_THUMB_TILE(PENSTOCK_THUMB_SIGNED));
}

#else

static inline int8_t *penstock_thumb_pack(const int8_t *a, const int8_t *b, int32_t count,
                                          int8_t *window) {
    for (int32_t i = 0; i < count; i++, window += 4) {
        penstock_store_word(window, (uint32_t)(int32_t)a[i] + ((uint32_t)(int32_t)b[i] << 16));
    }
    return window;
}

/* Adds a weight's products to a channel's sums. */
static inline uint32_t penstock_thumb_add(uint32_t sums, uint32_t inputs, int32_t weight) {
    return sums + inputs * (uint32_t)weight;
}

/* Computes the totals (channel, pixel) of a group.  Returns the end of its weights. */
static inline const int8_t *penstock_thumb_totals(const struct penstock_thumb_tile *tile,
                                                  const int8_t *w, int32_t totals[2][2]) {
    for (const int8_t *x = tile->window; x != tile->end;) {
        const int32_t words = (-(int32_t)penstock_load_word(w + 4) - 24) / 32;
        uint32_t sums[2] = {0, 0};
        for (int32_t k = 0; k < words; k++, x += 8, w += k == 1 ? 8 : 4) {
            const uint32_t a = penstock_load_word(x);
            const uint32_t b = penstock_load_word(x + 4);
            sums[0] = penstock_thumb_add(penstock_thumb_add(sums[0], a, w[0]), b, w[2]);
            sums[1] = penstock_thumb_add(penstock_thumb_add(sums[1], a, w[1]), b, w[3]);
        }
        for (int32_t c = 0; c < 2; c++) {
            const int32_t lower = penstock_lower_half(sums[c]);
            totals[c][0] += lower;
            totals[c][1] += penstock_upper_half(sums[c] - (uint32_t)lower);
        }
    }
    return w;
}

static inline void penstock_thumb_groups(const struct penstock_thumb_tile *tile, int32_t is_signed,
                                         int8_t *out0, int8_t *out1) {
    const int8_t *w = tile->weights;
    for (int32_t group = 0; group < tile->groups; group++) {
        int32_t totals[2][2] = {{0, 0}, {0, 0}};
        w = penstock_thumb_totals(tile, w, totals);
        for (int32_t c = 0; c < 2; c++) {
            penstock_thumb_output(w, is_signed, totals[c][0], out0);
            w = penstock_thumb_output(w, is_signed, totals[c][1], out1);
        }
    }
}

static inline void penstock_thumb_tile_plain(const struct penstock_thumb_tile *tile, int8_t *out0,
                                             int8_t *out1) {
    penstock_thumb_groups(tile, 0, out0, out1);
}

static inline void penstock_thumb_tile_signed(const struct penstock_thumb_tile *tile, int8_t *out0,
                                              int8_t *out1) {
    penstock_thumb_groups(tile, 1, out0, out1);
}

#endif

#endif
