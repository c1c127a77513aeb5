/* tile.h: sums of products of two pixels with four output channels at a time, requantised.
 *
 * A window holds the inputs of an output pixel as `2 * pairs` 16-bit numbers.  Two windows are
 * interleaved pair by pair:   pixel 0: x0 x1 | pixel 1: x0 x1 | pixel 0: x2 x3 | ..
 * If the number of inputs is not a multiple of four, the values that pad it are arbitrary because
 * their weights are 0. Weights of four output channels, for each pair of inputs (a, b), are two
 * words, one for the channels 0 and 1 and one for 2 and 3.  A word has two 16-bit numbers
 *     256 * w1[a] + w0[a]   and   256 * w1[b] + w0[b]
 * so that one dual multiply (SMLAD) adds to 256 * sum1 + sum0.  The low bytes alone, widened, give
 * sum0; the difference is 256 * sum1, exactly, since sums are known modulo 2^32 and fit 24 bits.
 * The 8 bits below a sum serve its rounding:
 *     t = (sum << 8) + offset,   t -= correction if t < 0,
 *     y = saturated (base + (t * factor >> 32)) >> shift
 * with constants for which the compiler has proved that y equals the result of the reference.
 * Scales of four channels: offsets of 1, 3, 0, 2, factors of 0, 1, 2, 3, corrections of 0, 1, 2, 3,
 * and their common base. */
#ifndef PENSTOCK_TILE_H
#define PENSTOCK_TILE_H

#include "dsp.h"

struct penstock_tile {
    const int8_t *window;  /* aligned to 4 bytes, as the weights */
    const int8_t *weights; /* 8 * pairs bytes for four channels */
    const int32_t *scales; /* 13 for four channels */
    int32_t pairs; /* even */
    int32_t quads; /* groups of four output channels, at least 1 */
    int32_t shift;
};

#if PENSTOCK_HAS_DSP

/* In the code below, r2 .. r9 are the sums: r2, r3 of channel 1 for pixels 0 and 1, mixed with
 * channel 0's as above; r4, r5 of channel 3, mixed; r6, r7 of channel 0; r8, r9 of channel 2.
 * r0 is the window, r1 the weights.  After the first two pairs, execution enters the unrolled code
 * of four pairs in its middle if the number of remaining pairs is not a multiple of four; a pair
 * takes 56 bytes of code.  Stack: out0, out1, window, scales, shift, advance of r0 and r1 after two
 * pairs, branch target after two pairs, end of the window, end of out0. */
#define PENSTOCK_TILE_PAIR(at)                                                                    \
    "ldr r10,[r0,#" #at "]\n" /* inputs of pixel 0 */                                             \
    "ldr r11,[r0,#" #at " + 4]\n" /* and 1 */                                                     \
    "ldr r12,[r1,#" #at "]\n" /* weights of channels 1 and 0 */                                   \
    "ldr lr,[r1,#" #at " + 4]\n" /* and of 3 and 2 */                                             \
    "smlad r2,r10,r12,r2\n"                                                                       \
    "smlad r3,r11,r12,r3\n"                                                                       \
    "smlad r4,r10,lr,r4\n"                                                                        \
    "smlad r5,r11,lr,r5\n"                                                                        \
    "sxtb16 r12,r12\n"                                                                            \
    "sxtb16 lr,lr\n"                                                                              \
    "smlad r6,r10,r12,r6\n"                                                                       \
    "smlad r7,r11,r12,r7\n"                                                                       \
    "smlad r8,r10,lr,r8\n"                                                                        \
    "smlad r9,r11,lr,r9\n"

/* Start of four channels; r12 points to their scales. */
#define PENSTOCK_TILE_OFFSETS                                                                     \
    "ldr r2,[r12]\n"                                                                              \
    "ldr r4,[r12,#4]\n"                                                                           \
    "mov r3,r2\n"                                                                                 \
    "mov r5,r4\n"                                                                                 \
    "movs r6,#0\n"                                                                                \
    "movs r7,#0\n"                                                                                \
    "mov r8,r6\n"                                                                                 \
    "mov r9,r6\n"

#define PENSTOCK_TILE_SUMS                                                                        \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#36\n"                                                                                \
    "ldm r0,{r3-r8}\n" /* window .. shift */                                                      \
    "and r9,r6,#2\n"                                                                              \
    "lsl r9,#3\n"                                                                                 \
    "adr.w r10,2f\n" /* branch target after two pairs: the first of four, */                      \
    "cmp r9,#0\n"                                                                                 \
    "it eq\n"                                                                                     \
    "addeq r10,#112\n" /* or the third, */                                                        \
    "cmp r6,#2\n"                                                                                 \
    "adr.w r11,3f\n"                                                                              \
    "it eq\n"                                                                                     \
    "moveq r10,r11\n" /* or the end */                                                            \
    "add r11,r3,r6,lsl #3\n"                                                                      \
    "add r12,r1,r7,lsl #2\n"                                                                      \
    "stm sp,{r1,r2,r3,r5,r8-r12}\n"                                                               \
    "mov r1,r4\n"                                                                                 \
    "1:\n" /* next four channels */                                                               \
    "ldr r0,[sp,#8]\n"                                                                            \
    "ldr r12,[sp,#12]\n"                                                                          \
    "ldr r10,[r0]\n"                                                                              \
    "ldr r11,[r0,#4]\n"                                                                           \
    "ldr r2,[r12]\n"                                                                              \
    "ldr r4,[r12,#4]\n"                                                                           \
    "ldr r12,[r1]\n"                                                                              \
    "ldr lr,[r1,#4]\n"                                                                            \
    "smlad r3,r11,r12,r2\n"                                                                       \
    "smlad r2,r10,r12,r2\n"                                                                       \
    "smlad r5,r11,lr,r4\n"                                                                        \
    "smlad r4,r10,lr,r4\n"                                                                        \
    "sxtb16 r12,r12\n"                                                                            \
    "sxtb16 lr,lr\n"                                                                              \
    "smuad r6,r10,r12\n"                                                                          \
    "smuad r7,r11,r12\n"                                                                          \
    "smuad r8,r10,lr\n"                                                                           \
    "smuad r9,r11,lr\n"                                                                           \
    PENSTOCK_TILE_PAIR(8)                                                                         \
    "ldr r10,[sp,#20]\n"                                                                          \
    "ldr r11,[sp,#24]\n"                                                                          \
    "add r0,r10\n"                                                                                \
    "add r1,r10\n"                                                                                \
    "mov pc,r11\n"                                                                                \
    "2:\n" /* next four pairs */                                                                  \
    PENSTOCK_TILE_PAIR(0)                                                                         \
    PENSTOCK_TILE_PAIR(8)                                                                         \
    PENSTOCK_TILE_PAIR(16)                                                                        \
    PENSTOCK_TILE_PAIR(24)                                                                        \
    "ldr r10,[sp,#28]\n"                                                                          \
    "adds r0,#32\n"                                                                               \
    "adds r1,#32\n"                                                                               \
    "cmp r0,r10\n"                                                                                \
    "bne 2b\n"                                                                                    \
    "3:\n" PENSTOCK_TILE_FRACTIONS

/* Sums with their fractions; r0 is the scales. */
#define PENSTOCK_TILE_FRACTIONS                                                                   \
    "ldr r0,[sp,#12]\n"                                                                           \
    "ldr r11,[r0,#48]\n"                                                                          \
    "ldr r12,[r0,#8]\n"                                                                           \
    "ldr lr,[r0,#12]\n"                                                                           \
    "sub r2,r2,r6\n"                                                                              \
    "sub r3,r3,r7\n"                                                                              \
    "sub r4,r4,r8\n"                                                                              \
    "sub r5,r5,r9\n"                                                                              \
    "add r6,r12,r6,lsl #8\n"                                                                      \
    "add r7,r12,r7,lsl #8\n"                                                                      \
    "add r8,lr,r8,lsl #8\n"                                                                       \
    "add r9,lr,r9,lsl #8\n"

#define PENSTOCK_TILE_CORRECT(t, correction)                                                      \
    "and r10," correction "," t ",asr #31\n"                                                      \
    "sub " t "," t ",r10\n"

#define PENSTOCK_TILE_CORRECTIONS                                                                 \
    "ldr r12,[r0,#32]\n"                                                                          \
    "ldr lr,[r0,#36]\n"                                                                           \
    PENSTOCK_TILE_CORRECT("r6", "r12")                                                            \
    PENSTOCK_TILE_CORRECT("r7", "r12")                                                            \
    PENSTOCK_TILE_CORRECT("r2", "lr")                                                             \
    PENSTOCK_TILE_CORRECT("r3", "lr")                                                             \
    "ldr r12,[r0,#40]\n"                                                                          \
    "ldr lr,[r0,#44]\n"                                                                           \
    PENSTOCK_TILE_CORRECT("r8", "r12")                                                            \
    PENSTOCK_TILE_CORRECT("r9", "r12")                                                            \
    PENSTOCK_TILE_CORRECT("r4", "lr")                                                             \
    PENSTOCK_TILE_CORRECT("r5", "lr")

#define PENSTOCK_TILE_OUTPUTS                                                                     \
    "ldr r10,[sp,#16]\n" /* the shift */                                                          \
    "ldr r12,[r0,#16]\n"                                                                          \
    "ldr lr,[r0,#20]\n"                                                                           \
    "smmla r6,r6,r12,r11\n"                                                                       \
    "smmla r7,r7,r12,r11\n"                                                                       \
    "smmla r2,r2,lr,r11\n"                                                                        \
    "smmla r3,r3,lr,r11\n"                                                                        \
    "ldr r12,[r0,#24]\n"                                                                          \
    "ldr lr,[r0,#28]\n"                                                                           \
    "smmla r8,r8,r12,r11\n"                                                                       \
    "smmla r9,r9,r12,r11\n"                                                                       \
    "smmla r4,r4,lr,r11\n"                                                                        \
    "smmla r5,r5,lr,r11\n"                                                                        \
    "asr r2,r10\n"                                                                                \
    "asr r3,r10\n"                                                                                \
    "asr r4,r10\n"                                                                                \
    "asr r5,r10\n"                                                                                \
    "asr r6,r10\n"                                                                                \
    "asr r7,r10\n"                                                                                \
    "asr r8,r10\n"                                                                                \
    "asr r9,r10\n"                                                                                \
    "ssat r2,#8,r2\n"                                                                             \
    "ssat r3,#8,r3\n"                                                                             \
    "ssat r4,#8,r4\n"                                                                             \
    "ssat r5,#8,r5\n"                                                                             \
    "ssat r6,#8,r6\n"                                                                             \
    "ssat r7,#8,r7\n"                                                                             \
    "ssat r8,#8,r8\n"                                                                             \
    "ssat r9,#8,r9\n"                                                                             \
    "adds r0,#52\n"                                                                               \
    "str r0,[sp,#12]\n"                                                                           \
    "ldr r10,[sp]\n"                                                                              \
    "ldr r11,[sp,#4]\n"                                                                           \
    "ldr r12,[sp,#32]\n"                                                                          \
    "bfi r7,r3,#8,#8\n"                                                                           \
    "bfi r7,r9,#16,#8\n"                                                                          \
    "bfi r7,r5,#24,#8\n"                                                                          \
    "bfi r6,r2,#8,#8\n"                                                                           \
    "bfi r6,r8,#16,#8\n"                                                                          \
    "bfi r6,r4,#24,#8\n"                                                                          \
    "str r7,[r11],#4\n" /* pixel 1 first: both may have the same address */                       \
    "str r6,[r10],#4\n"                                                                           \
    "str r10,[sp]\n"                                                                              \
    "str r11,[sp,#4]\n"                                                                           \
    "cmp r10,r12\n"                                                                               \
    "bne 1b\n"

#define PENSTOCK_TILE_RETURN(frame_bytes)                                                         \
    "add sp,#" #frame_bytes "\n"                                                                  \
    "pop {r4-r11,pc}\n"

/* Computes the outputs of both pixels; of pixel 0 only if `out0` equals `out1`.  Without
 * corrections. Aligned to 4 because ADR counts from the program counter rounded down to a multiple
 * of 4, and compilers place functions at multiples of 2 when they optimise for size. */
__attribute__((naked, noinline, unused, aligned(4))) static void penstock_tile_plain(
    const struct penstock_tile *tile __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_TILE_SUMS PENSTOCK_TILE_OUTPUTS PENSTOCK_TILE_RETURN(36));
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused, aligned(4))) static void penstock_tile_signed(
    const struct penstock_tile *tile __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_TILE_SUMS PENSTOCK_TILE_CORRECTIONS PENSTOCK_TILE_OUTPUTS
                         PENSTOCK_TILE_RETURN(36));
}

#else

/* Output of channel o.  The sum of an even channel is `lower`; that of an odd one is mixed with
 * it. */
static inline int8_t penstock_tile_output(const struct penstock_tile *tile, int32_t o,
                                          int32_t mixed, int32_t lower) {
    static const int32_t offset_of[4] = {2, 0, 3, 1};
    const int32_t *scales = tile->scales + o / 4 * 13;
    const uint32_t sum = o % 2 ? (uint32_t)mixed - (uint32_t)lower : (uint32_t)lower << 8;
    const int32_t t = penstock_correct((int32_t)(sum + (uint32_t)scales[offset_of[o % 4]]),
                                       scales[8 + o % 4]);
    const int32_t scaled = penstock_high_product(t, scales[4 + o % 4], scales[12]);
    return (int8_t)penstock_saturate(scaled >> tile->shift);
}

/* Output of channel o of a pixel. */
static inline int8_t penstock_tile_pixel(const struct penstock_tile *tile, int32_t pixel,
                                         int32_t o) {
    const int8_t *w = tile->weights + (o / 4 * tile->pairs * 2 + o % 4 / 2) * 4;
    const int8_t *x = tile->window + 4 * pixel;
    int32_t mixed = 0;
    int32_t lower = 0;
    for (int32_t k = 0; k < tile->pairs; k++, x += 8, w += 8) {
        const uint32_t inputs = penstock_load_word(x);
        const uint32_t word = penstock_load_word(w);
        mixed = penstock_add_lower(inputs, word, mixed);
        mixed = penstock_add_upper(inputs, word, mixed);
        lower = penstock_add_lower(inputs, penstock_even_bytes(word), lower);
        lower = penstock_add_upper(inputs, penstock_even_bytes(word), lower);
    }
    return penstock_tile_output(tile, o, mixed, lower);
}

static inline void penstock_tile_signed(const struct penstock_tile *tile, int8_t *out0,
                                        int8_t *out1) {
    for (int32_t o = 0; o < tile->quads * 4; o++) {
        out1[o] = penstock_tile_pixel(tile, 1, o);
        out0[o] = penstock_tile_pixel(tile, 0, o);
    }
}

static inline void penstock_tile_plain(const struct penstock_tile *tile, int8_t *out0,
                                       int8_t *out1) {
    penstock_tile_signed(tile, out0, out1);
}

#endif

#endif
