/* nine_taps_mve.h: depthwise products with nine taps of sixteen channels at a time.
 *
 * A tap points to the channels of one input pixel.  For sixteen channels, the following are stored:
 * the weights, tap by tap; the offsets, corrections (if signed) and factors of channels 0, 4, 8,
 * 12, then of 2, 6, 10, 14, of 1, 5, 9, 13 and of 3, 7, 11, 15; and the bases of these four groups.
 * Products are added in pairs in 16 bits; the compiler has proved that they fit. */
#ifndef PENSTOCK_NINE_TAPS_MVE_H
#define PENSTOCK_NINE_TAPS_MVE_H

#include "mve.h"

#define PENSTOCK_NINE 9

struct penstock_mve_taps {
    const int8_t *tap[PENSTOCK_NINE];
    const int8_t *weights; /* aligned to 4 bytes */
    int32_t blocks;        /* of sixteen channels, at least 1 */
    struct penstock_scaling scaling;
    int32_t advance;     /* bytes from the end of the last block to the next pixel's taps */
    int32_t out_advance; /* and to its outputs */
    int32_t pixels;      /* at least 1 */
};

#if PENSTOCK_HAS_MVE

/* In the code below, r0 .. r8 are the taps, r9 is weights and scales, r10 the output, r11 the
 * structure, r12 any number, lr counts blocks.  q2 and q3 are sums in 16 bits of even and odd channels,
 * q4 .. q7 sums of the four fours of channels, of which the last lies on the stack in between. */
#define PENSTOCK_FIRST_OF_GROUP(tap)                                                              \
    "vldrb.8 q0,[" tap "],#16\n"                                                                  \
    "vldrw.32 q1,[r9],#16\n"                                                                      \
    "vmullb.s8 q2,q0,q1\n"                                                                        \
    "vmullt.s8 q3,q0,q1\n"

#define PENSTOCK_NEXT_OF_GROUP(tap)                                                               \
    "vldrb.8 q0,[" tap "],#16\n"                                                                  \
    "vldrw.32 q1,[r9],#16\n"                                                                      \
    "vmullb.s8 q7,q0,q1\n"                                                                        \
    "vmullt.s8 q0,q0,q1\n"                                                                        \
    "vadd.i16 q2,q2,q7\n"                                                                         \
    "vadd.i16 q3,q3,q0\n"

#define PENSTOCK_ADD_GROUP                                                                        \
    "vmovlb.s16 q0,q2\n"                                                                          \
    "vmovlt.s16 q1,q2\n"                                                                          \
    "vldrw.32 q7,[sp]\n"                                                                          \
    "vadd.i32 q4,q4,q0\n"                                                                         \
    "vadd.i32 q5,q5,q1\n"                                                                         \
    "vmovlb.s16 q0,q3\n"                                                                          \
    "vmovlt.s16 q1,q3\n"                                                                          \
    "vadd.i32 q6,q6,q0\n"                                                                         \
    "vadd.i32 q7,q7,q1\n"

#define PENSTOCK_NINE_SUMS                                                                        \
    "push {r4-r11,lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                            \
    "sub sp,#20\n"                                                                                \
    "mov r10,r1\n"                                                                                \
    "mov r11,r0\n"                                                                                \
    "ldr r12,[r11,#60]\n"                                                                         \
    "str r12,[sp,#16]\n" /* pixels left */                                                        \
    "ldm r11,{r0-r8}\n"                                                                           \
    "1:\n" /* next pixel */                                                                       \
    "ldrd r9,lr,[r11,#36]\n"                                                                      \
    "dls lr,lr\n"                                                                                 \
    "2:\n" /* next sixteen channels */                                                            \
    PENSTOCK_FIRST_OF_GROUP("r0")                                                                 \
    PENSTOCK_NEXT_OF_GROUP("r1")                                                                  \
    "vmovlt.s16 q7,q3\n"                                                                          \
    "vmovlb.s16 q4,q2\n"                                                                          \
    "vstrw.32 q7,[sp]\n"                                                                          \
    "vmovlt.s16 q5,q2\n"                                                                          \
    "vmovlb.s16 q6,q3\n"                                                                          \
    PENSTOCK_FIRST_OF_GROUP("r2")                                                                 \
    PENSTOCK_NEXT_OF_GROUP("r3")                                                                  \
    PENSTOCK_ADD_GROUP                                                                            \
    "vstrw.32 q7,[sp]\n"                                                                          \
    PENSTOCK_FIRST_OF_GROUP("r4")                                                                 \
    PENSTOCK_NEXT_OF_GROUP("r5")                                                                  \
    PENSTOCK_ADD_GROUP                                                                            \
    "vstrw.32 q7,[sp]\n"                                                                          \
    PENSTOCK_FIRST_OF_GROUP("r6")                                                                 \
    PENSTOCK_NEXT_OF_GROUP("r7")                                                                  \
    PENSTOCK_ADD_GROUP                                                                            \
    "vstrw.32 q7,[sp]\n"                                                                          \
    PENSTOCK_FIRST_OF_GROUP("r8")                                                                 \
    PENSTOCK_ADD_GROUP                                                                            \
    "ldr r12,[r11,#44]\n"                                                                         \
    "vldrw.32 q0,[r9],#16\n"                                                                      \
    "vldrw.32 q1,[r9],#16\n"                                                                      \
    "vldrw.32 q2,[r9],#16\n"                                                                      \
    "vldrw.32 q3,[r9],#16\n"                                                                      \
    "vmla.s32 q0,q4,r12\n"                                                                        \
    "vmla.s32 q1,q5,r12\n"                                                                        \
    "vmla.s32 q2,q6,r12\n"                                                                        \
    "vmla.s32 q3,q7,r12\n"

#define PENSTOCK_NINE_CORRECT(t)                                                                  \
    "vldrw.32 q4,[r9],#16\n"                                                                      \
    "vpt.s32 lt," t ",zr\n"                                                                       \
    "vsubt.i32 " t "," t ",q4\n"

#define PENSTOCK_NINE_CORRECTIONS                                                                 \
    PENSTOCK_NINE_CORRECT("q0")                                                                   \
    PENSTOCK_NINE_CORRECT("q1")                                                                   \
    PENSTOCK_NINE_CORRECT("q2")                                                                   \
    PENSTOCK_NINE_CORRECT("q3")

#define PENSTOCK_NINE_OUTPUTS                                                                     \
    "vldrw.32 q4,[r9],#16\n"                                                                      \
    "vldrw.32 q5,[r9],#16\n"                                                                      \
    "vldrw.32 q6,[r9],#16\n"                                                                      \
    "vldrw.32 q7,[r9],#16\n"                                                                      \
    "vmulh.s32 q0,q0,q4\n"                                                                        \
    "vmulh.s32 q1,q1,q5\n"                                                                        \
    "vmulh.s32 q2,q2,q6\n"                                                                        \
    "vmulh.s32 q3,q3,q7\n"                                                                        \
    "ldr r12,[r9],#4\n"                                                                           \
    "vadd.i32 q0,q0,r12\n"                                                                        \
    "ldr r12,[r9],#4\n"                                                                           \
    "vadd.i32 q1,q1,r12\n"                                                                        \
    "ldr r12,[r9],#4\n"                                                                           \
    "vadd.i32 q2,q2,r12\n"                                                                        \
    "ldr r12,[r9],#4\n"                                                                           \
    "vadd.i32 q3,q3,r12\n"                                                                        \
    "ldr r12,[r11,#48]\n"                                                                         \
    "vqshl.s32 q0,r12\n"                                                                          \
    "vqshl.s32 q1,r12\n"                                                                          \
    "vqshl.s32 q2,r12\n"                                                                          \
    "vqshl.s32 q3,r12\n"                                                                          \
    "vshrnb.i32 q0,q0,#16\n" /* the upper halves, then the upper bytes */                         \
    "vshrnb.i32 q2,q2,#16\n"                                                                      \
    "vshrnt.i32 q0,q1,#16\n"                                                                      \
    "vshrnt.i32 q2,q3,#16\n"                                                                      \
    "vshrnb.i16 q0,q0,#8\n"                                                                       \
    "vshrnt.i16 q0,q2,#8\n"                                                                       \
    "vstrb.8 q0,[r10],#16\n"                                                                      \
    "le lr,2b\n"                                                                                  \
    "ldr r12,[r11,#52]\n" /* to the next pixel */                                                 \
    "cmp r12,#0\n"                                                                                \
    "beq 3f\n"

#define PENSTOCK_NINE_PIXELS                                                                      \
    "add r0,r12\n"                                                                                \
    "add r1,r12\n"                                                                                \
    "add r2,r12\n"                                                                                \
    "add r3,r12\n"                                                                                \
    "add r4,r12\n"                                                                                \
    "add r5,r12\n"                                                                                \
    "add r6,r12\n"                                                                                \
    "add r7,r12\n"                                                                                \
    "add r8,r12\n"                                                                                \
    "3:\n"                                                                                        \
    "ldr r9,[r11,#56]\n"                                                                          \
    "ldr r12,[sp,#16]\n"                                                                          \
    "add r10,r9\n"                                                                                \
    "subs r12,#1\n"                                                                               \
    "str r12,[sp,#16]\n"                                                                          \
    "bne.w 1b\n"                                                                                  \
    "add sp,#20\n"                                                                                \
    "vpop {d8-d15}\n"                                                                             \
    "pop {r4-r11,pc}\n"

/* Output pixels.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_mve_taps_plain(
    const struct penstock_mve_taps *taps __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_NINE_SUMS PENSTOCK_NINE_OUTPUTS PENSTOCK_NINE_PIXELS);
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_mve_taps_signed(
    const struct penstock_mve_taps *taps __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_NINE_SUMS PENSTOCK_NINE_CORRECTIONS PENSTOCK_NINE_OUTPUTS
                         PENSTOCK_NINE_PIXELS);
}

#else

/* Word k of the scales, which are stored after the weights of their block. */
static inline int32_t penstock_nine_word(const int8_t *scales, int32_t k) {
    int32_t word;
    memcpy(&word, scales + 4 * k, sizeof word);
    return word;
}

/* Output of channel c of a block with `weights`, followed by `vectors` vectors of scales. */
static inline int8_t penstock_nine_output(const struct penstock_mve_taps *taps, int32_t advanced,
                                          const int8_t *weights, int32_t c, int32_t vectors) {
    static const int32_t four_of[4] = {0, 2, 1, 3};
    const int8_t *scales = weights + PENSTOCK_NINE * PENSTOCK_VECTOR;
    const int32_t four = four_of[c % 4];
    const int32_t at = 4 * four + c / 4;
    int32_t sum = 0;
    for (int32_t k = 0; k < PENSTOCK_NINE; k++) {
        sum += taps->tap[k][advanced + c] * weights[k * PENSTOCK_VECTOR + c];
    }
    return penstock_output(&taps->scaling, sum, penstock_nine_word(scales, 4 * vectors + four),
                           penstock_nine_word(scales, at),
                           penstock_nine_word(scales, 4 * (vectors - 4) + at),
                           vectors > 8 ? penstock_nine_word(scales, 16 + at) : 0);
}

static inline void penstock_mve_taps_vectors(const struct penstock_mve_taps *taps, int8_t *out,
                                              int32_t vectors) {
    const int32_t bytes = (PENSTOCK_NINE + vectors + 1) * PENSTOCK_VECTOR;
    int32_t advanced = 0;
    for (int32_t pixel = 0; pixel < taps->pixels; pixel++) {
        for (int32_t block = 0; block < taps->blocks; block++, advanced += PENSTOCK_VECTOR) {
            for (int32_t c = 0; c < PENSTOCK_VECTOR; c++) {
                *out++ = penstock_nine_output(taps, advanced, taps->weights + block * bytes, c,
                                              vectors);
            }
        }
        advanced += taps->advance;
        out += taps->out_advance;
    }
}

static inline void penstock_mve_taps_plain(const struct penstock_mve_taps *taps, int8_t *out) {
    penstock_mve_taps_vectors(taps, out, 8);
}

static inline void penstock_mve_taps_signed(const struct penstock_mve_taps *taps, int8_t *out) {
    penstock_mve_taps_vectors(taps, out, 12);
}

#endif

#endif
