/* pool2d_s8_dsp: the largest element or the mean of a sliding window without padding elements, for
 * cores with the DSP extension.
 *   x  (N, H,  W,  C)  int8     at least eight channels
 *   y  (N, Ho, Wo, C)  int8
 * Eight channels are processed at a time; the last eight may overlap the preceding ones.  Sums of a
 * window fit 16 bits, and
 *     (2 * sum + 257 * count - (sum < 0)) * ceil(2^31 / count) >> 32
 * is their mean, ties away from zero, plus 128 (see docs/requantisation.md). Computes rows [lower,
 * upper) of y, where a row index runs over N and Ho. */
#ifndef PENSTOCK_POOL2D_S8_DSP_H
#define PENSTOCK_POOL2D_S8_DSP_H

#include "dsp.h"
#include "pool.h"
#include "window.h"

struct pool2d_s8_dsp {
    PENSTOCK_POOL_MEMBERS;
    int32_t averages;
};

/* The inputs of an output pixel. */
struct penstock_pool {
    const int8_t *const *rows; /* inside the tensor */
    const int8_t *const *rows_end;
    int32_t first; /* offset of the first tap in a row */
    int32_t width; /* taps in a row, at least 1 */
    int32_t step;  /* from one tap to the next */
    int32_t last;  /* offset of the last eight channels */
    int32_t clamps;
    uint32_t least, most; /* in all bytes */
    int32_t bias;
    uint32_t reciprocal;
};

#if PENSTOCK_HAS_DSP

/* In the code below, r0 is the pool, r1 the output, r2 the offset of eight channels; r3 and r4 the next
 * row and their end, r8 the step, r9 what is added to a row, r10 a tap, r11 those left in the row. */
#define PENSTOCK_POOL_TAPS(start, add)                                                            \
    "push {r4-r11,lr}\n"                                                                          \
    "movs r2,#0\n"                                                                                \
    "1:\n" /* next eight channels */                                                              \
    start                                                                                         \
    "ldr r3,[r0]\n"                                                                               \
    "ldr r4,[r0,#4]\n"                                                                            \
    "ldr r8,[r0,#16]\n"                                                                           \
    "ldr r9,[r0,#8]\n"                                                                            \
    "add r9,r2\n"                                                                                 \
    "2:\n" /* next row */                                                                         \
    "ldr r11,[r0,#12]\n"                                                                          \
    "ldr r10,[r3],#4\n"                                                                           \
    "add r10,r9\n"                                                                                \
    "3:\n" /* next tap */                                                                         \
    "ldr r12,[r10]\n"                                                                             \
    "ldr r5,[r10,#4]\n"                                                                           \
    "add r10,r8\n"                                                                                \
    add                                                                                           \
    "subs r11,#1\n"                                                                               \
    "bne 3b\n"                                                                                    \
    "cmp r3,r4\n"                                                                                 \
    "bne 2b\n"

/* The words are r6 and r7. */
#define PENSTOCK_POOL_STORE                                                                       \
    "ldr r5,[r0,#24]\n"                                                                           \
    "cbz r5,5f\n"                                                                                 \
    "ldr r12,[r0,#28]\n"                                                                          \
    "ldr r11,[r0,#32]\n"                                                                          \
    PENSTOCK_GREATER_BYTES("r6", "r12", "r10")                                                    \
    PENSTOCK_GREATER_BYTES("r7", "r12", "r10")                                                    \
    PENSTOCK_SMALLER_BYTES("r6", "r11", "r10")                                                    \
    PENSTOCK_SMALLER_BYTES("r7", "r11", "r10")                                                    \
    "5:\n"                                                                                        \
    "ldr r12,[r0,#20]\n"                                                                          \
    "add r10,r1,r2\n"                                                                             \
    "str r6,[r10]\n"                                                                              \
    "str r7,[r10,#4]\n"                                                                           \
    "cmp r2,r12\n"                                                                                \
    "beq 4f\n"                                                                                    \
    "adds r2,#8\n"                                                                                \
    "cmp r2,r12\n"                                                                                \
    "it gt\n"                                                                                     \
    "movgt r2,r12\n"                                                                              \
    "b 1b\n"                                                                                      \
    "4:\n"                                                                                        \
    "pop {r4-r11,pc}\n"

static __attribute__((naked, noinline)) void penstock_pool_largest(
    const struct penstock_pool *pool __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_POOL_TAPS("mov r6,#0x80808080\n"
                                        "mov r7,r6\n",
                                        PENSTOCK_GREATER_BYTES("r6", "r12", "lr")
                                        PENSTOCK_GREATER_BYTES("r7", "r5", "lr"))
                     PENSTOCK_POOL_STORE);
}

/* Writes the mean of a sum, plus 128, to byte `at` / 8 of `word`; `take` extracts the sum from a
 * pair. */
#define PENSTOCK_POOL_MEAN(take, word, at)                                                        \
    take                                                                                          \
    "add r4,r12,r3,lsl #1\n"                                                                      \
    "add r4,r4,r3,asr #31\n"                                                                      \
    "umull r3,r4,r4,r11\n"                                                                        \
    "bfi " word ",r4,#" #at ",#8\n"

/* Four means of the sums of even and odd bytes. */
#define PENSTOCK_POOL_MEANS(even, odd, word)                                                      \
    PENSTOCK_POOL_MEAN("sxth r3," even "\n", word, 0)                                             \
    PENSTOCK_POOL_MEAN("sxth r3," odd "\n", word, 8)                                              \
    PENSTOCK_POOL_MEAN("asr r3," even ",#16\n", word, 16)                                         \
    PENSTOCK_POOL_MEAN("asr r3," odd ",#16\n", word, 24)                                          \
    "eor " word "," word ",#0x80808080\n"

/* Sums of even and odd bytes are r6 and r7, then r1, which is put by, and lr. */
static __attribute__((naked, noinline)) void penstock_pool_mean(
    const struct penstock_pool *pool __attribute__((unused)),
    int8_t *out __attribute__((unused))) {
    __asm__ volatile(PENSTOCK_POOL_TAPS("movs r6,#0\n"
                                        "movs r7,#0\n"
                                        "mov lr,#0\n"
                                        "push {r1}\n"
                                        "movs r1,#0\n",
                                        "sxtab16 r6,r6,r12\n"
                                        "sxtab16 r7,r7,r12,ror #8\n"
                                        "sxtab16 r1,r1,r5\n"
                                        "sxtab16 lr,lr,r5,ror #8\n")
                     "ldr r12,[r0,#36]\n"
                     "ldr r11,[r0,#40]\n"
                     PENSTOCK_POOL_MEANS("r6", "r7", "r10")
                     PENSTOCK_POOL_MEANS("r1", "lr", "r7")
                     "mov r6,r10\n"
                     "pop {r1}\n"
                     PENSTOCK_POOL_STORE);
}

#else

/* Adds eight channels of a tap to the sums, or takes the maximum of both. */
static inline void penstock_pool_spelled(const struct penstock_pool *pool, int averages,
                                         int8_t *out) {
    const int32_t channels = pool->last + 8;
    for (int32_t c = 0; c < channels; c++) {
        int32_t found = averages ? 0 : -128;
        for (const int8_t *const *row = pool->rows; row < pool->rows_end; row++) {
            const int8_t *tap = *row + pool->first + c;
            for (int32_t k = 0; k < pool->width; k++, tap += pool->step) {
                found = averages ? found + *tap : (*tap > found ? *tap : found);
            }
        }
        if (averages) {
            const uint32_t twice = (uint32_t)(2 * found + pool->bias - (found < 0));
            found = (int32_t)((uint64_t)twice * pool->reciprocal >> 32) - 128;
        }
        out[c] = (int8_t)found;
    }
    penstock_clamp_words(out, channels, pool->least, pool->most);
}

static inline void penstock_pool_largest(const struct penstock_pool *pool, int8_t *out) {
    penstock_pool_spelled(pool, 0, out);
}

static inline void penstock_pool_mean(const struct penstock_pool *pool, int8_t *out) {
    penstock_pool_spelled(pool, 1, out);
}

#endif

PENSTOCK_KERNEL void pool2d_s8_dsp(const struct pool2d_s8_dsp *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    const int8_t *in_rows[PENSTOCK_WINDOW_ROWS];
    struct penstock_pool pool = {.rows = in_rows,
                                 .step = p->dilation_w * p->in_c,
                                 .last = p->out_c - 8,
                                 .clamps = p->least > -128 || p->most < 127,
                                 .least = penstock_all_bytes(p->least),
                                 .most = penstock_all_bytes(p->most)};
    for (int32_t row = lower; row < upper; row++) {
        const int32_t top = row % p->out_h * p->stride_h - p->pad_top; /* within its image */
        const int32_t first_row = row / p->out_h * p->in_h + top;
        const penstock_span rows =
            penstock_pool_taps(top, p->kernel_h, p->dilation_h, p->in_h);
        const int32_t height = rows.upper - rows.lower;
        for (int32_t k = 0; k < height; k++) {
            in_rows[k] = penstock_read_row(x, first_row + (rows.lower + k) * p->dilation_h);
        }
        pool.rows_end = in_rows + height;
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->out_w; column++, out += p->out_c) {
            const int32_t left = column * p->stride_w - p->pad_left;
            const penstock_span columns =
                penstock_pool_taps(left, p->kernel_w, p->dilation_w, p->in_w);
            const int32_t before = (left + columns.lower * p->dilation_w) * p->in_c;
            pool.first = before;
            pool.width = columns.upper - columns.lower;
            if (p->averages) {
                const int32_t count = height * pool.width;
                pool.bias = 257 * count;
                pool.reciprocal = (0x7FFFFFFFu + (uint32_t)count) / (uint32_t)count;
                penstock_pool_mean(&pool, out);
            } else {
                penstock_pool_largest(&pool, out);
            }
        }
    }
}

#endif
