/* dsp.h: arithmetic on pairs of 16-bit numbers with the DSP extension of Armv7E-M and Armv8-M.
 *
 * Each function is one instruction with the extension.  Machines other than Arm cores compile
 * equivalent C, for tests on a host; compiling for an Arm core without the extension is an
 * error. */
#ifndef PENSTOCK_DSP_H
#define PENSTOCK_DSP_H

#include <stdint.h>
#include <string.h>

#include "words.h"

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__ARM_ARCH_PROFILE)
#if __ARM_ARCH_PROFILE == 'M'
#define PENSTOCK_HAS_DSP 1
#include <arm_acle.h>
#endif
#endif
#ifndef PENSTOCK_HAS_DSP
#define PENSTOCK_HAS_DSP 0
#if PENSTOCK_ARM_CORE
#error "The kernels of this bundle need the DSP extension, which this Arm core lacks. \
Compile for a core that has it (-mcpu=cortex-m4), or run penstock compile for this one (--target)."
#endif
#endif

/* Bytes 0 and 2 of a word as a pair, sign-extended. */
static inline uint32_t penstock_even_bytes(uint32_t word) {
#if PENSTOCK_HAS_DSP
    return (uint32_t)__sxtb16((int8x4_t)word);
#else
    return (uint32_t)(uint16_t)(int8_t)(uint8_t)word |
           (uint32_t)(uint16_t)(int8_t)(uint8_t)(word >> 16) << 16;
#endif
}

/* Bytes 1 and 3 of a word as a pair, sign-extended. */
static inline uint32_t penstock_odd_bytes(uint32_t word) {
    return penstock_even_bytes(word >> 8 | word << 24);
}

/* A 16-bit number in both halves of a word. */
static inline int32_t penstock_both_halves(int32_t x) {
    return (int32_t)((uint32_t)(uint16_t)x * 0x10001u);
}

/* sum + the product of the lower numbers. */
static inline int32_t penstock_add_lower(uint32_t x, uint32_t w, int32_t sum) {
#if PENSTOCK_HAS_DSP
    return __smlabb((int32_t)x, (int32_t)w, sum);
#else
    return (int32_t)((uint32_t)sum + (uint32_t)(penstock_lower_half(x) * penstock_lower_half(w)));
#endif
}

/* sum + the product of the upper numbers. */
static inline int32_t penstock_add_upper(uint32_t x, uint32_t w, int32_t sum) {
#if PENSTOCK_HAS_DSP
    return __smlatt((int32_t)x, (int32_t)w, sum);
#else
    return (int32_t)((uint32_t)sum + (uint32_t)(penstock_upper_half(x) * penstock_upper_half(w)));
#endif
}

/* Saturates to int8. */
static inline int32_t penstock_saturate(int32_t x) {
#if PENSTOCK_HAS_DSP
    int32_t y; /* the macro __ssat() of GCC triggers -Wsign-conversion */
    __asm__("ssat %0,#8,%1" : "=r"(y) : "r"(x));
    return y;
#else
    return x < -128 ? -128 : (x > 127 ? 127 : x);
#endif
}

/* Clamps `count` numbers to [least, most]. */
static inline void penstock_clamp_bytes(int8_t *numbers, int32_t count, int32_t least,
                                        int32_t most) {
    for (int32_t k = 0; k < count; k++) {
        const int32_t x = numbers[k] < least ? least : numbers[k];
        numbers[k] = (int8_t)(x > most ? most : x);
    }
}

/* An 8-bit number in all bytes of a word. */
static inline uint32_t penstock_all_bytes(int32_t x) {
    return (uint32_t)(uint8_t)x * 0x1010101u;
}

#if PENSTOCK_HAS_DSP
/* The greater, and the smaller, of the signed bytes of registers x and y, into x. */
#define PENSTOCK_GREATER_BYTES(x, y, free) "ssub8 " free "," x "," y "\n" "sel " x "," x "," y "\n"
#define PENSTOCK_SMALLER_BYTES(x, y, free) "ssub8 " free "," y "," x "\n" "sel " x "," x "," y "\n"

/* Clamps `count` numbers; all bytes of `least` and `most` hold the bounds. */
__attribute__((naked, noinline, unused)) static void penstock_clamp_words(
    int8_t *numbers __attribute__((unused)), int32_t count __attribute__((unused)),
    uint32_t least __attribute__((unused)), uint32_t most __attribute__((unused))) {
    __asm__ volatile("push {r4,lr}\n"
                     "1:\n"
                     "subs r1,#4\n"
                     "blt 2f\n"
                     "ldr r12,[r0]\n"
                     PENSTOCK_GREATER_BYTES("r12", "r2", "r4")
                     PENSTOCK_SMALLER_BYTES("r12", "r3", "r4")
                     "str r12,[r0],#4\n"
                     "b 1b\n"
                     "2:\n"
                     "adds r1,#4\n"
                     "beq 4f\n"
                     "3:\n" /* the last one to three bytes */
                     "ldrb r12,[r0]\n"
                     PENSTOCK_GREATER_BYTES("r12", "r2", "r4")
                     PENSTOCK_SMALLER_BYTES("r12", "r3", "r4")
                     "strb r12,[r0],#1\n"
                     "subs r1,#1\n"
                     "bne 3b\n"
                     "4:\n"
                     "pop {r4,pc}\n");
}
#else
static inline void penstock_clamp_words(int8_t *numbers, int32_t count, uint32_t least,
                                        uint32_t most) {
    penstock_clamp_bytes(numbers, count, (int8_t)(uint8_t)least, (int8_t)(uint8_t)most);
}
#endif

/* base + floor(x * factor / 2^32). */
static inline int32_t penstock_high_product(int32_t x, int32_t factor, int32_t base) {
#if PENSTOCK_HAS_DSP
    int32_t sum; /* assembly: compilers expand products with known factors */
    __asm__("smmla %0,%1,%2,%3" : "=r"(sum) : "r"(x), "r"(factor), "r"(base));
    return sum;
#else
    return (int32_t)((uint32_t)base + (uint32_t)(int32_t)((int64_t)x * factor >> 32));
#endif
}

/* x - correction if x is negative, else x. */
static inline int32_t penstock_correct(int32_t x, int32_t correction) {
    return (int32_t)((uint32_t)x - (uint32_t)(correction & (x >> 31)));
}

#endif
