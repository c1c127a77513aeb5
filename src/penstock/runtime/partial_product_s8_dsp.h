/* partial_product_s8_dsp: products of vectors and a matrix, added to sums, for cores with the DSP
 * extension.
 *   s  (.., O)  int32    x  (.., C)  int8     C a multiple of 4
 *   y  (.., O)  int32                         y may have the address of s
 * The inputs are s and x, or x alone if sums begin with a bias.  Computes rows [lower, upper) of y.
 * Weights, aligned to 4 bytes: for each four channels of y, for each four of x, four for each
 * channel of y.  Weights that pad the last four channels of y are arbitrary. */
#ifndef PENSTOCK_PARTIAL_PRODUCT_S8_DSP_H
#define PENSTOCK_PARTIAL_PRODUCT_S8_DSP_H

#include "dsp.h"
#include "view.h"
#include "wide.h"

struct partial_product_s8_dsp {
    int32_t width; /* vectors in a row */
    int32_t in_c, out_c;
    int32_t begins; /* 1: the sums begin with a bias */
    const int8_t *weights;
    const int32_t *bias; /* one per channel of y if `begins`, else unused */
};

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

/* Sums of one vector: all channels of y. */
static void penstock_partial_products(const struct partial_product_s8_dsp *p, const int8_t *sums,
                                      const int8_t *x, int8_t *out) {
    const int8_t *w = p->weights;
    const int32_t rest = p->out_c % 4;
    int32_t four[4];
    for (int32_t o = 0; o < p->out_c - rest; o += 4, w += 4 * p->in_c) {
        memcpy(four, sums + 4 * o, sizeof four);
        penstock_add_products(x, w, x + p->in_c, four);
        memcpy(out + 4 * o, four, sizeof four);
    }
    if (rest > 0) {
        const size_t bytes = (size_t)rest * sizeof *four;
        memcpy(four, sums + 4 * (p->out_c - rest), bytes);
        memset(four + rest, 0, sizeof four - bytes);
        penstock_add_products(x, w, x + p->in_c, four);
        memcpy(out + 4 * (p->out_c - rest), four, bytes);
    }
}

PENSTOCK_KERNEL void partial_product_s8_dsp(const struct partial_product_s8_dsp *p,
                                            const penstock_source *x, const penstock_sink *y,
                                            int32_t lower, int32_t upper) {
    const penstock_source *vectors = p->begins ? x : x + 1;
    for (int32_t row = lower; row < upper; row++) {
        const int8_t *sums = p->begins ? NULL : penstock_read_row(x, row);
        const int8_t *in = penstock_read_row(vectors, row);
        int8_t *out = penstock_write_row(y, row);
        for (int32_t column = 0; column < p->width; column++, in += p->in_c) {
            const int32_t at = 4 * column * p->out_c;
            const int8_t *from = p->begins ? (const int8_t *)p->bias : sums + at;
            penstock_partial_products(p, from, in, out + at);
        }
    }
}

#endif
