/* runs.h: dot products of one or two pixels with four output channels at a time, with inputs read
 * in place.
 *
 * A window consists of runs of bytes of equal length, a multiple of 4, at any addresses.  tile.h
 * defines the layout of weights and scales; the even bytes of each group of four bytes of a run are
 * its first pair. */
#ifndef PENSTOCK_RUNS_H
#define PENSTOCK_RUNS_H

#include "row_tile.h"

struct penstock_runs {
    const int8_t *const *runs; /* of pixel 0, of pixel 1, of pixel 0, .. */
    const int8_t *weights;     /* aligned to 4 bytes */
    const int32_t *scales;
    int32_t count; /* runs of each pixel, at least 1 */
    int32_t fours; /* groups of four bytes in a run, at least 1 */
    int32_t quads; /* groups of four output channels, at least 1 */
    int32_t shift;
};

#if PENSTOCK_HAS_DSP

/* In the code below, r2 .. r9 are the sums, as in tile.h; r0 and r10 are the runs of pixels 0 and 1,
 * r1 the weights.  Stack: out0, out1, runs, scales, shift, runs' end, bytes of a run's blocks of
 * sixteen, bytes of a run, out0's end, next run, blocks' end, run's end. */
#define PENSTOCK_RUNS_PAIR(input, weights, rotation)                                              \
    "ldr r11,[r0,#" input "]\n"                                                                   \
    "ldr r12,[r10,#" input "]\n"                                                                  \
    "ldr lr,[r1,#" weights "]\n"                                                                  \
    "sxtb16 r11,r11" rotation "\n"                                                                \
    "sxtb16 r12,r12" rotation "\n"                                                                \
    "smlad r2,r11,lr,r2\n"                                                                        \
    "smlad r3,r12,lr,r3\n"                                                                        \
    "sxtb16 lr,lr\n"                                                                              \
    "smlad r6,r11,lr,r6\n"                                                                        \
    "smlad r7,r12,lr,r7\n"                                                                        \
    "ldr lr,[r1,#" weights " + 4]\n"                                                              \
    "smlad r4,r11,lr,r4\n"                                                                        \
    "smlad r5,r12,lr,r5\n"                                                                        \
    "sxtb16 lr,lr\n"                                                                              \
    "smlad r8,r11,lr,r8\n"                                                                        \
    "smlad r9,r12,lr,r9\n"

#define PENSTOCK_RUNS_FOUR(input, weights)                                                        \
    PENSTOCK_RUNS_PAIR(input, weights, "")                                                        \
    PENSTOCK_RUNS_PAIR(input, weights " + 8", ",ror #8")

#define PENSTOCK_RUNS_SUMS                                                                        \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#52\n"                                                                                \
    "ldm r0,{r3-r9}\n" /* runs .. shift */                                                        \
    "lsls r7,#2\n"                                                                                \
    "add r10,r3,r6,lsl #3\n"                                                                      \
    "bic r11,r7,#15\n"                                                                            \
    "mov r12,r7\n"                                                                                \
    "add lr,r1,r8,lsl #2\n"                                                                       \
    "stm sp,{r1,r2,r3,r5,r9-r12,lr}\n"                                                            \
    "mov r1,r4\n"                                                                                 \
    "1:\n" /* next four channels */                                                               \
    "ldr r12,[sp,#12]\n"                                                                          \
    PENSTOCK_TILE_OFFSETS                                                                         \
    "ldr r12,[sp,#8]\n"                                                                           \
    "2:\n" /* next run */                                                                         \
    "ldr r10,[r12,#4]\n"                                                                          \
    "ldr r0,[r12],#8\n"                                                                           \
    "ldr r11,[sp,#24]\n"                                                                          \
    "ldr lr,[sp,#28]\n"                                                                           \
    "str r12,[sp,#36]\n"                                                                          \
    "add r11,r0\n"                                                                                \
    "add lr,r0\n"                                                                                 \
    "str r11,[sp,#40]\n"                                                                          \
    "str lr,[sp,#44]\n"                                                                           \
    "cmp r0,r11\n"                                                                                \
    "beq 4f\n"                                                                                    \
    "3:\n" /* next sixteen inputs */                                                              \
    ".irp at,0,4,8,12\n"                                                                          \
    PENSTOCK_RUNS_FOUR("\\at", "4*\\at")                                                          \
    ".endr\n"                                                                                     \
    "ldr r11,[sp,#40]\n"                                                                          \
    "adds r0,#16\n"                                                                               \
    "add r10,#16\n"                                                                               \
    "adds r1,#64\n"                                                                               \
    "cmp r0,r11\n"                                                                                \
    "bne 3b\n"                                                                                    \
    "4:\n"                                                                                        \
    "ldr r11,[sp,#44]\n"                                                                          \
    "cmp r0,r11\n"                                                                                \
    "beq 6f\n"                                                                                    \
    "5:\n" /* next four inputs */                                                                 \
    PENSTOCK_RUNS_FOUR("0", "0")                                                                  \
    "ldr r11,[sp,#44]\n"                                                                          \
    "adds r0,#4\n"                                                                                \
    "add r10,#4\n"                                                                                \
    "adds r1,#16\n"                                                                               \
    "cmp r0,r11\n"                                                                                \
    "bne 5b\n"                                                                                    \
    "6:\n"                                                                                        \
    "ldr r12,[sp,#36]\n"                                                                          \
    "ldr r11,[sp,#20]\n"                                                                          \
    "cmp r12,r11\n"                                                                               \
    "bne 2b\n"                                                                                    \
    PENSTOCK_TILE_FRACTIONS

/* Outputs of two pixels.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_runs_plain(
    const struct penstock_runs *tile __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_RUNS_SUMS PENSTOCK_TILE_OUTPUTS PENSTOCK_TILE_RETURN(52));
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_runs_signed(
    const struct penstock_runs *tile __attribute__((unused)),
    int8_t *out0 __attribute__((unused)), int8_t *out1 __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_RUNS_SUMS PENSTOCK_TILE_CORRECTIONS PENSTOCK_TILE_OUTPUTS
                         PENSTOCK_TILE_RETURN(52));
}

/* In the code below, registers are those of row_tile.h.  Stack: output, runs, scales, shift, blocks
 * of sixteen inputs in a run, fours beyond them, output's end, next run, runs' end. */
#define PENSTOCK_LONE_SUMS                                                                        \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#36\n"                                                                                \
    "ldm r0,{r3-r9}\n" /* runs .. shift */                                                        \
    "lsrs r10,r7,#2\n"                                                                            \
    "and r11,r7,#3\n"                                                                             \
    "add r12,r1,r8,lsl #2\n"                                                                      \
    "add lr,r3,r6,lsl #3\n"                                                                       \
    "stm sp,{r1,r3,r5,r9-r12}\n"                                                                  \
    "str lr,[sp,#32]\n"                                                                           \
    "mov r1,r4\n"                                                                                 \
    "1:\n" /* next four channels */                                                               \
    "ldr lr,[sp,#8]\n"                                                                            \
    "ldr r12,[sp,#4]\n"                                                                           \
    "ldr r2,[lr]\n"                                                                               \
    "ldr r3,[lr,#4]\n"                                                                            \
    "movs r4,#0\n"                                                                                \
    "movs r5,#0\n"                                                                                \
    "2:\n" /* next run */                                                                         \
    "ldr r0,[r12],#8\n"                                                                           \
    "str r12,[sp,#28]\n"                                                                          \
    "ldr r12,[sp,#16]\n"                                                                          \
    "cmp r12,#0\n"                                                                                \
    "beq 4f\n"                                                                                    \
    "3:\n" /* next sixteen inputs */                                                              \
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
    "bne 3b\n"                                                                                    \
    "4:\n"                                                                                        \
    "ldr r12,[sp,#20]\n"                                                                          \
    "cmp r12,#0\n"                                                                                \
    "beq 6f\n"                                                                                    \
    "5:\n" /* next four inputs */                                                                 \
    "ldr r6,[r0],#4\n"                                                                            \
    PENSTOCK_ROW_FOUR("r6")                                                                       \
    "subs r12,#1\n"                                                                               \
    "bne 5b\n"                                                                                    \
    "6:\n"                                                                                        \
    "ldr r12,[sp,#28]\n"                                                                          \
    "ldr r6,[sp,#32]\n"                                                                           \
    "cmp r12,r6\n"                                                                                \
    "bne 2b\n"                                                                                    \
    PENSTOCK_ROW_FRACTIONS

/* Outputs of pixel 0.  Without corrections. */
__attribute__((naked, noinline, unused)) static void penstock_lone_plain(
    const struct penstock_runs *tile __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_LONE_SUMS PENSTOCK_ROW_OUTPUTS);
}

/* As above, with corrections. */
__attribute__((naked, noinline, unused)) static void penstock_lone_signed(
    const struct penstock_runs *tile __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_LONE_SUMS PENSTOCK_ROW_CORRECTIONS PENSTOCK_ROW_OUTPUTS);
}

#else

/* Output of channel o of a pixel, whose runs are every second element of `runs`. */
static inline int8_t penstock_runs_output(const struct penstock_runs *tile,
                                          const int8_t *const *runs, int32_t o) {
    const int32_t pairs = tile->count * tile->fours * 2;
    const int8_t *w = tile->weights + (o / 4 * pairs * 2 + o % 4 / 2) * 4;
    int32_t mixed = 0;
    int32_t lower = 0;
    for (int32_t k = 0; k < pairs; k++, w += 8) {
        const int32_t at = k / 2; /* index of a group of four */
        const uint32_t four =
            penstock_load_word(runs[at / tile->fours * 2] + at % tile->fours * 4);
        const uint32_t inputs = k % 2 ? penstock_odd_bytes(four) : penstock_even_bytes(four);
        const uint32_t word = penstock_load_word(w);
        mixed = penstock_add_lower(inputs, word, mixed);
        mixed = penstock_add_upper(inputs, word, mixed);
        lower = penstock_add_lower(inputs, penstock_even_bytes(word), lower);
        lower = penstock_add_upper(inputs, penstock_even_bytes(word), lower);
    }
    const struct penstock_tile scaled = {NULL, NULL, tile->scales, pairs, 0, tile->shift};
    return penstock_tile_output(&scaled, o, mixed, lower);
}

static inline void penstock_lone_signed(const struct penstock_runs *tile, int8_t *out) {
    for (int32_t o = 0; o < tile->quads * 4; o++) {
        out[o] = penstock_runs_output(tile, tile->runs, o);
    }
}

static inline void penstock_lone_plain(const struct penstock_runs *tile, int8_t *out) {
    penstock_lone_signed(tile, out);
}

static inline void penstock_runs_signed(const struct penstock_runs *tile, int8_t *out0,
                                        int8_t *out1) {
    for (int32_t o = 0; o < tile->quads * 4; o++) {
        out0[o] = penstock_runs_output(tile, tile->runs, o);
        out1[o] = penstock_runs_output(tile, tile->runs + 1, o);
    }
}

static inline void penstock_runs_plain(const struct penstock_runs *tile, int8_t *out0,
                                       int8_t *out1) {
    penstock_runs_signed(tile, out0, out1);
}

#endif

#endif
