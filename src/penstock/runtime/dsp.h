/* dsp.h: pairs of 16-bit numbers, as the DSP extension of Armv7E-M and Armv8-M multiplies them.
 *
 * Where the extension is there, these are single instructions; elsewhere they are spelled out, so
 * that the same kernels run on any machine. */
#ifndef PENSTOCK_DSP_H
#define PENSTOCK_DSP_H

#include <stdint.h>
#include <string.h>

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__ARM_ARCH_PROFILE)
#if __ARM_ARCH_PROFILE == 'M'
#define PENSTOCK_HAS_DSP 1
#include <arm_acle.h>
#endif
#endif
#ifndef PENSTOCK_HAS_DSP
#define PENSTOCK_HAS_DSP 0
#endif

/* Four bytes as they stand in memory, the first one lowest; at any address. */
static inline uint32_t penstock_load_word(const int8_t *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static inline void penstock_store_word(int8_t *to, uint32_t word) {
    memcpy(to, &word, sizeof word);
}

/* The lower and the upper number of a pair. */
static inline int32_t penstock_lower_half(uint32_t pair) {
    return (int16_t)(uint16_t)pair;
}

static inline int32_t penstock_upper_half(uint32_t pair) {
    return (int16_t)(uint16_t)(pair >> 16);
}

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

/* sum + the lower numbers' product. */
static inline int32_t penstock_add_lower(uint32_t x, uint32_t w, int32_t sum) {
#if PENSTOCK_HAS_DSP
    return __smlabb((int32_t)x, (int32_t)w, sum);
#else
    return (int32_t)((uint32_t)sum + (uint32_t)(penstock_lower_half(x) * penstock_lower_half(w)));
#endif
}

/* sum + the upper numbers' product. */
static inline int32_t penstock_add_upper(uint32_t x, uint32_t w, int32_t sum) {
#if PENSTOCK_HAS_DSP
    return __smlatt((int32_t)x, (int32_t)w, sum);
#else
    return (int32_t)((uint32_t)sum + (uint32_t)(penstock_upper_half(x) * penstock_upper_half(w)));
#endif
}

/* The number in int8 that is nearest. */
static inline int32_t penstock_saturate(int32_t x) {
#if PENSTOCK_HAS_DSP
    return __ssat(x, 8);
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

/* base + floor(x * factor / 2^32). */
static inline int32_t penstock_high_product(int32_t x, int32_t factor, int32_t base) {
    return (int32_t)((uint32_t)base + (uint32_t)(int32_t)((int64_t)x * factor >> 32));
}

/* x - correction where x is negative. */
static inline int32_t penstock_correct(int32_t x, int32_t correction) {
    return (int32_t)((uint32_t)x - (uint32_t)(correction & (x >> 31)));
}

#endif
