/* words.h: 32-bit words of bytes and of 16-bit pairs, and detection of bare-metal Arm cores. */
#ifndef PENSTOCK_WORDS_H
#define PENSTOCK_WORDS_H

#include <stdint.h>
#include <string.h>

/* Whether the code is compiled for a 32-bit Arm core without an operating system.  On such cores,
 * kernels for an extension stop with #error if the extension is missing, instead of falling back to
 * C, which is many times slower. */
#if defined(__arm__) && !defined(__linux__)
#define PENSTOCK_ARM_CORE 1
#else
#define PENSTOCK_ARM_CORE 0
#endif

/* Loads four bytes at any address as a little-endian word. */
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

#endif
