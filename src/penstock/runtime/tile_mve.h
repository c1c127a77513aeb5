/* tile_mve.h: dot products of two windows with four output channels at a time, requantised.
 *
 * A window consists of `steps` vectors of inputs, at any address.  The weights of four output
 * channels are interleaved: the first vector of each channel, then the second of each, and so on.
 * Scales of four channels are a base, four offsets, four corrections if the tile is signed, and
 * four factors. */
#ifndef PENSTOCK_TILE_MVE_H
#define PENSTOCK_TILE_MVE_H

#include "mve.h"

struct penstock_mve_tile {
    const int8_t *x0, *x1; /* windows */
    int32_t more_steps;    /* vectors beyond the first */
    struct penstock_scaling scaling;
    int8_t *out0, *out1; /* may be the same */
    const int32_t *scales_end;
    const int8_t *weights;
    const int32_t *scales;
    int32_t pairs;       /* of windows, at least 1 */
    int32_t x_advance;   /* bytes from the windows of one pair to those of the next */
    int32_t out_advance; /* bytes from the end of one pair's outputs to those of the next */
    int32_t quads;       /* groups of four output channels, at least 1 */
};

#if PENSTOCK_HAS_MVE

/* In the code below, even registers are sums: r0 .. r6 of window 0, r8 .. lr of window 1; r1 is the
 * weights, r3 and r5 the windows, r7 counts vectors, r9 is the scales, r11 the tile. */
#define PENSTOCK_MVE_TILE_STEP(multiply)                                                          \
    "vldrb.8 q0,[r3],#16\n"                                                                       \
    "vldrb.8 q1,[r5],#16\n"                                                                       \
    "vldrw.32 q2,[r1],#16\n"                                                                      \
    "vldrw.32 q3,[r1],#16\n"                                                                      \
    multiply " r0,q0,q2\n"                                                                        \
    multiply " r8,q1,q2\n"                                                                        \
    "vldrw.32 q2,[r1],#16\n"                                                                      \
    multiply " r2,q0,q3\n"                                                                        \
    multiply " r10,q1,q3\n"                                                                       \
    "vldrw.32 q3,[r1],#16\n"                                                                      \
    multiply " r4,q0,q2\n"                                                                        \
    multiply " r12,q1,q2\n"                                                                       \
    multiply " r6,q0,q3\n"                                                                        \
    multiply " lr,q1,q3\n"

#define PENSTOCK_MVE_TILE_SUMS                                                                    \
    "push {r4-r11,lr}\n"                                                                          \
    "mov r11,r0\n"                                                                                \
    "0:\n" /* next pair of windows */                                                             \
    "ldrd r1,r9,[r11,#32]\n"                                                                      \
    "1:\n" /* next four channels */                                                               \
    "ldrd r3,r5,[r11]\n"                                                                          \
    "ldr r7,[r11,#8]\n"                                                                           \
    PENSTOCK_MVE_TILE_STEP("vmladav.s8")                                                          \
    "lsrs r7,r7,#1\n"                                                                             \
    "bcc 4f\n"                                                                                    \
    PENSTOCK_MVE_TILE_STEP("vmladava.s8")                                                         \
    "4:\n"                                                                                        \
    "beq 3f\n"                                                                                    \
    "2:\n" /* next two vectors */                                                                 \
    PENSTOCK_MVE_TILE_STEP("vmladava.s8")                                                         \
    PENSTOCK_MVE_TILE_STEP("vmladava.s8")                                                         \
    "subs r7,#1\n"                                                                                \
    "bne 2b\n"                                                                                    \
    "3:\n"                                                                                        \
    "vmov q0[2],q0[0],r0,r4\n"                                                                    \
    "vmov q0[3],q0[1],r2,r6\n"                                                                    \
    "vmov q1[2],q1[0],r8,r12\n"                                                                   \
    "vmov q1[3],q1[1],r10,lr\n"                                                                   \
    "ldr r0,[r9],#4\n"                                                                            \
    "ldrd r2,r8,[r11,#12]\n"                                                                      \
    "ldrd r6,r4,[r11,#20]\n"                                                                      \
    "vldrw.32 q2,[r9],#16\n"                                                                      \
    "vmov q3,q2\n"                                                                                \
    "vmla.s32 q2,q0,r2\n"                                                                         \
    "vmla.s32 q3,q1,r2\n"

#define PENSTOCK_MVE_TILE_CORRECTIONS                                                             \
    "vldrw.32 q0,[r9],#16\n"                                                                      \
    "vpt.s32 lt,q2,zr\n"                                                                          \
    "vsubt.i32 q2,q2,q0\n"                                                                        \
    "vpt.s32 lt,q3,zr\n"                                                                          \
    "vsubt.i32 q3,q3,q0\n"

#define PENSTOCK_MVE_TILE_OUTPUTS                                                                 \
    "vldrw.32 q0,[r9],#16\n"                                                                      \
    "vmulh.s32 q2,q2,q0\n"                                                                        \
    "vmulh.s32 q3,q3,q0\n"                                                                        \
    "vadd.i32 q2,q2,r0\n"                                                                         \
    "vadd.i32 q3,q3,r0\n"                                                                         \
    "vqshl.s32 q2,r8\n"                                                                           \
    "vqshl.s32 q3,r8\n"                                                                           \
    "vshr.s32 q2,q2,#24\n"                                                                        \
    "vshr.s32 q3,q3,#24\n"                                                                        \
    "vstrb.32 q3,[r4],#4\n" /* window 1 first: both may have the same address */                  \
    "vstrb.32 q2,[r6],#4\n"                                                                       \
    "ldr r0,[r11,#28]\n"                                                                          \
    "strd r6,r4,[r11,#20]\n"                                                                      \
    "cmp r9,r0\n"                                                                                 \
    "bne 1b\n"                                                                                    \
    "ldrd r0,r10,[r11,#40]\n" /* pairs, x_advance */                                              \
    "ldrd r3,r5,[r11]\n"                                                                          \
    "ldr r12,[r11,#48]\n"                                                                         \
    "add r3,r10\n"                                                                                \
    "add r5,r10\n"                                                                                \
    "add r6,r12\n"                                                                                \
    "add r4,r12\n"                                                                                \
    "subs r0,#1\n"                                                                                \
    "strd r3,r5,[r11]\n"                                                                          \
    "strd r6,r4,[r11,#20]\n"                                                                      \
    "str r0,[r11,#40]\n"                                                                          \
    "bne 0b\n"                                                                                    \
    "pop {r4-r11,pc}\n"

/* Outputs of all pairs of windows.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_mve_tile_plain(
    struct penstock_mve_tile *tile __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_MVE_TILE_SUMS PENSTOCK_MVE_TILE_OUTPUTS);
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_mve_tile_signed(
    struct penstock_mve_tile *tile __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_MVE_TILE_SUMS PENSTOCK_MVE_TILE_CORRECTIONS PENSTOCK_MVE_TILE_OUTPUTS);
}

#else

/* Output of channel o of a window; `words` is the number of words of the scales of four
 * channels. */
static inline int8_t penstock_mve_tile_output(const struct penstock_mve_tile *tile,
                                              const int8_t *x, int32_t o, int32_t words) {
    const int32_t steps = tile->more_steps + 1;
    const int8_t *w = tile->weights + (o / 4 * 4 * steps + o % 4) * PENSTOCK_VECTOR;
    const int32_t *scale = tile->scales + o / 4 * words;
    const int32_t correction = words > 9 ? scale[5 + o % 4] : 0;
    const int32_t sum = penstock_dot(x, w, steps, 4 * PENSTOCK_VECTOR);
    return penstock_output(&tile->scaling, sum, scale[0], scale[1 + o % 4],
                           scale[words - 4 + o % 4], correction);
}

static inline void penstock_mve_tile_words(struct penstock_mve_tile *tile, int32_t words) {
    for (int32_t pair = 0; pair < tile->pairs; pair++) {
        for (int32_t o = 0; o < 4 * tile->quads; o++) {
            *tile->out1++ = penstock_mve_tile_output(tile, tile->x1, o, words);
            *tile->out0++ = penstock_mve_tile_output(tile, tile->x0, o, words);
        }
        tile->x0 += tile->x_advance;
        tile->x1 += tile->x_advance;
        tile->out0 += tile->out_advance;
        tile->out1 += tile->out_advance;
    }
}

static inline void penstock_mve_tile_plain(struct penstock_mve_tile *tile) {
    penstock_mve_tile_words(tile, 9);
}

static inline void penstock_mve_tile_signed(struct penstock_mve_tile *tile) {
    penstock_mve_tile_words(tile, 13);
}

#endif

#endif
