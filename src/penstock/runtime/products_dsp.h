/* products_dsp.h: products of a vector and four rows of a matrix, added to sums, with the DSP
 * extension.
 *
 * The size of the vector is a multiple of 4.  Weights, aligned to 4 bytes: for each four inputs,
 * four weights of each of the four sums. */
#ifndef PENSTOCK_PRODUCTS_DSP_H
#define PENSTOCK_PRODUCTS_DSP_H

#include "dsp.h"

#if PENSTOCK_HAS_DSP

/* Products of four inputs with four weights each; `w` and r3 are overwritten. */
#define PENSTOCK_PRODUCTS_OF(sum, w)                                                              \
    "sxtb16 r3," w "\n"                                                                           \
    "sxtb16 " w "," w ",ror #8\n"                                                                 \
    "smlad " sum ",lr,r3," sum "\n"                                                               \
    "smlad " sum ",r8," w "," sum "\n"

#define PENSTOCK_PRODUCTS_OF_FOUR                                                                 \
    "ldr r8,[r0],#4\n"                                                                            \
    "ldm r1!,{r9-r12}\n"                                                                          \
    "sxtb16 lr,r8\n"                                                                              \
    "sxtb16 r8,r8,ror #8\n"                                                                       \
    PENSTOCK_PRODUCTS_OF("r4", "r9")                                                              \
    PENSTOCK_PRODUCTS_OF("r5", "r10")                                                             \
    PENSTOCK_PRODUCTS_OF("r6", "r11")                                                             \
    PENSTOCK_PRODUCTS_OF("r7", "r12")

/* Adds the products of inputs [x, end) to four sums.  An odd number of fours begins in the middle
 * of the loop. */
__attribute__((naked, noinline, unused)) static void penstock_add_products(
    const int8_t *x __attribute__((unused)), const int8_t *w __attribute__((unused)),
    const int8_t *end __attribute__((unused)), int32_t *sums __attribute__((unused))) {
    __asm__ volatile("push {r3-r11,lr}\n"
                     "ldm r3,{r4-r7}\n"
                     "subs r8,r2,r0\n"
                     "lsls r8,r8,#29\n"
                     "bmi 2f\n"
                     "1:\n"
                     PENSTOCK_PRODUCTS_OF_FOUR
                     "2:\n"
                     PENSTOCK_PRODUCTS_OF_FOUR
                     "cmp r0,r2\n"
                     "bne 1b\n"
                     "ldr r3,[sp]\n"
                     "stm r3,{r4-r7}\n"
                     "pop {r3-r11,pc}\n");
}

#else

static inline void penstock_add_products(const int8_t *x, const int8_t *w, const int8_t *end,
                                         int32_t *sums) {
    for (; x < end; x += 4) {
        const uint32_t four = penstock_load_word(x);
        for (int32_t o = 0; o < 4; o++, w += 4) {
            const uint32_t weights = penstock_load_word(w);
            const uint32_t even = penstock_even_bytes(weights);
            const uint32_t odd = penstock_odd_bytes(weights);
            sums[o] = penstock_add_lower(penstock_even_bytes(four), even, sums[o]);
            sums[o] = penstock_add_upper(penstock_even_bytes(four), even, sums[o]);
            sums[o] = penstock_add_lower(penstock_odd_bytes(four), odd, sums[o]);
            sums[o] = penstock_add_upper(penstock_odd_bytes(four), odd, sums[o]);
        }
    }
}

#endif

#endif
