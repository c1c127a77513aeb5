/* row_tile_mve.h: dot products of one row of inputs with eight outputs at a time, requantised.
 *
 * The row consists of `steps` vectors, at any address.  The weights of eight outputs are
 * interleaved: the first vector of each output, then the second of each, and so on.  The scales of
 * eight outputs are two bases, eight offsets, eight corrections (if signed) and eight factors. */
#ifndef PENSTOCK_ROW_TILE_MVE_H
#define PENSTOCK_ROW_TILE_MVE_H

#include "mve.h"

struct penstock_mve_row {
    const int8_t *x;
    int32_t more_steps; /* vectors beyond the first */
    const int8_t *weights;
    const int32_t *scales;
    struct penstock_scaling scaling;
    int32_t eights; /* groups of eight outputs, at least 1 */
};

#if PENSTOCK_HAS_MVE

/* In the code below, even registers are sums; r1 is the weights, r3 the row, r5 the output, r7 counts
 * vectors, r9 is the scales, r11 the structure.  Stack: remaining groups. */
#define PENSTOCK_MVE_ROW_STEP(multiply)                                                           \
    "vldrb.8 q0,[r3],#16\n"                                                                       \
    "vldrw.32 q1,[r1],#16\n"                                                                      \
    "vldrw.32 q2,[r1],#16\n"                                                                      \
    multiply " r0,q0,q1\n"                                                                        \
    "vldrw.32 q1,[r1],#16\n"                                                                      \
    multiply " r2,q0,q2\n"                                                                        \
    "vldrw.32 q2,[r1],#16\n"                                                                      \
    multiply " r4,q0,q1\n"                                                                        \
    "vldrw.32 q1,[r1],#16\n"                                                                      \
    multiply " r6,q0,q2\n"                                                                        \
    "vldrw.32 q2,[r1],#16\n"                                                                      \
    multiply " r8,q0,q1\n"                                                                        \
    "vldrw.32 q1,[r1],#16\n"                                                                      \
    multiply " r10,q0,q2\n"                                                                       \
    "vldrw.32 q2,[r1],#16\n"                                                                      \
    multiply " r12,q0,q1\n"                                                                       \
    multiply " lr,q0,q2\n"

#define PENSTOCK_MVE_ROW_SUMS                                                                     \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#4\n"                                                                                 \
    "mov r11,r0\n"                                                                                \
    "mov r5,r1\n"                                                                                 \
    "ldr r0,[r11,#24]\n"                                                                          \
    "ldrd r1,r9,[r11,#8]\n"                                                                       \
    "1:\n" /* next eight outputs */                                                               \
    "str r0,[sp]\n"                                                                               \
    "ldrd r3,r7,[r11]\n"                                                                          \
    PENSTOCK_MVE_ROW_STEP("vmladav.s8")                                                           \
    "lsrs r7,r7,#1\n"                                                                             \
    "bcc 4f\n"                                                                                    \
    PENSTOCK_MVE_ROW_STEP("vmladava.s8")                                                          \
    "4:\n"                                                                                        \
    "beq 3f\n"                                                                                    \
    "2:\n" /* next two vectors */                                                                 \
    PENSTOCK_MVE_ROW_STEP("vmladava.s8")                                                          \
    PENSTOCK_MVE_ROW_STEP("vmladava.s8")                                                          \
    "subs r7,#1\n"                                                                                \
    "bne 2b\n"                                                                                    \
    "3:\n"                                                                                        \
    "vmov q0[2],q0[0],r0,r4\n"                                                                    \
    "vmov q0[3],q0[1],r2,r6\n"                                                                    \
    "vmov q1[2],q1[0],r8,r12\n"                                                                   \
    "vmov q1[3],q1[1],r10,lr\n"                                                                   \
    "ldrd r0,r2,[r9],#8\n"                                                                        \
    "ldrd r4,r6,[r11,#16]\n"                                                                      \
    "vldrw.32 q2,[r9],#16\n"                                                                      \
    "vldrw.32 q3,[r9],#16\n"                                                                      \
    "vmla.s32 q2,q0,r4\n"                                                                         \
    "vmla.s32 q3,q1,r4\n"

#define PENSTOCK_MVE_ROW_CORRECTIONS                                                              \
    "vldrw.32 q0,[r9],#16\n"                                                                      \
    "vldrw.32 q1,[r9],#16\n"                                                                      \
    "vpt.s32 lt,q2,zr\n"                                                                          \
    "vsubt.i32 q2,q2,q0\n"                                                                        \
    "vpt.s32 lt,q3,zr\n"                                                                          \
    "vsubt.i32 q3,q3,q1\n"

#define PENSTOCK_MVE_ROW_OUTPUTS                                                                  \
    "vldrw.32 q0,[r9],#16\n"                                                                      \
    "vldrw.32 q1,[r9],#16\n"                                                                      \
    "vmulh.s32 q2,q2,q0\n"                                                                        \
    "vmulh.s32 q3,q3,q1\n"                                                                        \
    "vadd.i32 q2,q2,r0\n"                                                                         \
    "vadd.i32 q3,q3,r2\n"                                                                         \
    "vqshl.s32 q2,r6\n"                                                                           \
    "vqshl.s32 q3,r6\n"                                                                           \
    "ldr r0,[sp]\n"                                                                               \
    "vshr.s32 q2,q2,#24\n"                                                                        \
    "vshr.s32 q3,q3,#24\n"                                                                        \
    "subs r0,#1\n"                                                                                \
    "vstrb.32 q2,[r5],#4\n"                                                                       \
    "vstrb.32 q3,[r5],#4\n"                                                                       \
    "bne 1b\n"                                                                                    \
    "add sp,#4\n"                                                                                 \
    "pop {r4-r11,pc}\n"

/* Outputs of a row.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_mve_row_plain(
    const struct penstock_mve_row *row __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_MVE_ROW_SUMS PENSTOCK_MVE_ROW_OUTPUTS);
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_mve_row_signed(
    const struct penstock_mve_row *row __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_MVE_ROW_SUMS PENSTOCK_MVE_ROW_CORRECTIONS PENSTOCK_MVE_ROW_OUTPUTS);
}

#else

/* Computes the outputs of a row; the scales of eight outputs take `words` words. */
static inline void penstock_mve_row_words(const struct penstock_mve_row *row, int8_t *out,
                                          int32_t words) {
    const int32_t steps = row->more_steps + 1;
    for (int32_t o = 0; o < 8 * row->eights; o++) {
        const int8_t *w = row->weights + (o / 8 * 8 * steps + o % 8) * PENSTOCK_VECTOR;
        const int32_t *scale = row->scales + o / 8 * words;
        const int32_t sum = penstock_dot(row->x, w, steps, 8 * PENSTOCK_VECTOR);
        out[o] = penstock_output(&row->scaling, sum, scale[o % 8 / 4], scale[2 + o % 8],
                                 scale[words - 8 + o % 8], words > 18 ? scale[10 + o % 8] : 0);
    }
}

static inline void penstock_mve_row_plain(const struct penstock_mve_row *row, int8_t *out) {
    penstock_mve_row_words(row, out, 18);
}

static inline void penstock_mve_row_signed(const struct penstock_mve_row *row, int8_t *out) {
    penstock_mve_row_words(row, out, 26);
}

#endif

#endif
