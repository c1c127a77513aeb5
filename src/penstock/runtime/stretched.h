/* stretched.h: element-wise functions of two int8 tensors, four elements at a time, with
 * broadcasting.
 *
 * A row consists of `calls` times `runs` runs of `length` elements.  In a run, an input has
 * `length` consecutive elements, or one `repeated` element.  Its runs are `run_step` bytes apart.
 * broadcast.h defines the rows.  `length` is at least 4, and a multiple of 4 if `runs` is above
 * 1. */
#ifndef PENSTOCK_STRETCHED_H
#define PENSTOCK_STRETCHED_H

#include "dsp.h"
#include "view.h"

/* Leading members of the parameter structures of these kernels. */
#define PENSTOCK_STRETCHED_MEMBERS                                                                \
    int32_t out_h, step0_n, step0_h, step1_n, step1_h;                                            \
    int32_t calls, runs, length, run_step0, run_step1, repeated0, repeated1, least, most

/* The values that are the same for all rows of a kernel with parameters p. */
#define PENSTOCK_STRETCHED_PAIRS(p)                                                               \
    .step0 = (p)->repeated0 ? 0 : 4, .step1 = (p)->repeated1 ? 0 : 4,                             \
    .back0 = (p)->run_step0 - (p)->length, .back1 = (p)->run_step1 - (p)->length,                 \
    .length = (p)->length, .runs = (p)->runs

/* Runs of groups of four elements.  `number`: parameters of the function.  At the end of a run,
 * `back` is added to the address of an input. */
struct penstock_pairs {
    const int8_t *a;
    const int8_t *b;
    int8_t *out;
    const int8_t *end; /* of out, of the first run */
    int32_t number[5];
    int32_t zero0, zero1; /* added to the inputs; the same number in both halves */
    int32_t step0, step1; /* from one group of four to the next */
    int32_t back0, back1;
    int32_t length;
    int32_t runs;
};

typedef void penstock_fours(const struct penstock_pairs *pairs);

#if PENSTOCK_HAS_DSP

/* In the code below, r0 and r1 are the inputs, r2 the output, r3 its end, r4 .. r8 the numbers; r9 and
 * r10 four elements of the inputs.  Four outputs are found, before a shift by r8, in r12, r11, lr and
 * r9.  Stack: zeros, steps, back, length, runs left. */
#define PENSTOCK_PAIRS_FOUR                                                                       \
    "push {r4-r11,lr}\n"                                                                          \
    "sub sp,#32\n"                                                                                \
    "add lr,r0,#36\n"                                                                             \
    "ldm lr,{r1-r8}\n"                                                                            \
    "stm sp,{r1-r8}\n"                                                                            \
    "ldm r0,{r0-r8}\n"                                                                            \
    "1:\n"                                                                                        \
    "ldr r9,[r0]\n"                                                                               \
    "ldr r10,[r1]\n"                                                                              \
    "ldr r11,[sp,#8]\n"                                                                           \
    "ldr r12,[sp,#12]\n"                                                                          \
    "add r0,r11\n"                                                                                \
    "add r1,r12\n"

#define PENSTOCK_PAIRS_STORE                                                                      \
    "asr r12,r8\n"                                                                                \
    "asr r11,r8\n"                                                                                \
    "asr lr,r8\n"                                                                                 \
    "asr r9,r8\n"                                                                                 \
    "ssat r12,#8,r12\n"                                                                           \
    "ssat r11,#8,r11\n"                                                                           \
    "ssat lr,#8,lr\n"                                                                             \
    "ssat r9,#8,r9\n"                                                                             \
    "bfi r12,r11,#8,#8\n"                                                                         \
    "bfi r12,lr,#16,#8\n"                                                                         \
    "bfi r12,r9,#24,#8\n"                                                                         \
    "str r12,[r2],#4\n"                                                                           \
    "cmp r2,r3\n"                                                                                 \
    "bne 1b\n"                                                                                    \
    "ldr r9,[sp,#16]\n" /* to the next run */                                                     \
    "ldr r10,[sp,#20]\n"                                                                          \
    "ldr r11,[sp,#24]\n"                                                                          \
    "ldr r12,[sp,#28]\n"                                                                          \
    "add r0,r9\n"                                                                                 \
    "add r1,r10\n"                                                                                \
    "add r3,r11\n"                                                                                \
    "subs r12,#1\n"                                                                               \
    "str r12,[sp,#28]\n"                                                                          \
    "bne 1b\n"                                                                                    \
    "add sp,#32\n"                                                                                \
    "pop {r4-r11,pc}\n"

#else

/* Computes runs of groups of four by a function of one pair of elements. */
static inline void penstock_spelled_pairs(const struct penstock_pairs *pairs,
                                          int32_t (*one)(const struct penstock_pairs *pairs,
                                                         int32_t a, int32_t b)) {
    const int8_t *a = pairs->a;
    const int8_t *b = pairs->b;
    const int8_t *end = pairs->end;
    int8_t *out = pairs->out;
    for (int32_t run = 0; run < pairs->runs; run++) {
        for (; out != end; out += 4, a += pairs->step0, b += pairs->step1) {
            const uint32_t left = penstock_load_word(a); /* the output may overwrite it */
            const uint32_t right = penstock_load_word(b);
            for (int32_t k = 0; k < 4; k++) {
                out[k] = (int8_t)one(pairs, (int8_t)(uint8_t)(left >> 8 * k),
                                     (int8_t)(uint8_t)(right >> 8 * k));
            }
        }
        a += pairs->back0;
        b += pairs->back1;
        end += pairs->length;
    }
}

#endif

/* Computes groups of four of a call, up to `elements` of it. */
static inline void penstock_stretched_fours(struct penstock_pairs *pairs, penstock_fours *fours,
                                            const int8_t *a, const int8_t *b, int8_t *out,
                                            int32_t elements) {
    pairs->a = a;
    pairs->b = b;
    pairs->out = out;
    pairs->end = out + elements;
    fours(pairs);
}

/* Computes a call with inputs at a and b.  If the length of a run is not a multiple of four, its
 * last four elements are computed first and written last, because the output may overwrite an
 * input. */
static inline void penstock_stretched_call(struct penstock_pairs *pairs, penstock_fours *fours,
                                           const int8_t *a, const int8_t *b, int8_t *out) {
    const int32_t last = pairs->length - 4;
    const int has_rest = (pairs->length & 3) > 0;
    int8_t four[3][4];
    if (pairs->step0 == 0) {
        memset(four[0], *a, 4);
        a = four[0];
    }
    if (pairs->step1 == 0) {
        memset(four[1], *b, 4);
        b = four[1];
    }
    if (has_rest) {
        penstock_stretched_fours(pairs, fours, a + (pairs->step0 ? last : 0),
                                 b + (pairs->step1 ? last : 0), four[2], 4);
    }
    penstock_stretched_fours(pairs, fours, a, b, out, pairs->length & ~3);
    if (has_rest) {
        memcpy(out + last, four[2], 4);
    }
}

/* Computes the `calls` calls of a row with inputs at a and b. */
static inline void penstock_stretched_row(struct penstock_pairs *pairs, penstock_fours *fours,
                                          int32_t calls, const int8_t *a, const int8_t *b,
                                          int8_t *out) {
    for (; calls > 0; calls--) {
        penstock_stretched_call(pairs, fours, a, b, out);
        a += pairs->back0 + pairs->length;
        b += pairs->back1 + pairs->length;
        out += pairs->length;
    }
}

/* Clamps a row of `count` numbers to [least, most], bounds included. */
static inline void penstock_clamp_row(int8_t *out, int32_t count, int32_t least, int32_t most) {
    if (least > -128 || most < 127) {
        penstock_clamp_words(out, count, penstock_all_bytes(least), penstock_all_bytes(most));
    }
}

#endif
