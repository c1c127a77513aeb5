/* mve.h: shared code of kernels for MVE (128-bit vectors of Armv8.1-M).
 *
 * With the extension, inner loops are assembly.  Machines other than Arm cores compile equivalent
 * C, for tests on a host; compiling for an Arm core without the extension is an error.
 * Requantisation:
 *     t = (sum << k) + offset,   t -= correction if t < 0,
 *     y = saturated (base + (t * factor >> 32)) >> shift
 * with constants for which the compiler has proved that y equals the result of the reference. */
#ifndef PENSTOCK_MVE_H
#define PENSTOCK_MVE_H

#include <stdint.h>
#include <string.h>

#include "words.h"

#if defined(__ARM_FEATURE_MVE)
#define PENSTOCK_HAS_MVE 1
#else
#define PENSTOCK_HAS_MVE 0
#if PENSTOCK_ARM_CORE
#error "The kernels of this bundle need MVE (Helium), which this Arm core lacks. \
Compile for a core that has it (-mcpu=cortex-m55), or run penstock compile for this one (--target)."
#endif
#endif

#define PENSTOCK_VECTOR 16 /* bytes */

/* Copies few bytes inline. */
static inline void penstock_copy_vectors(int8_t *to, const int8_t *from, int32_t bytes) {
#if PENSTOCK_HAS_MVE
    __asm__ volatile("wlstp.8 lr,%2,2f\n"
                     "1: vldrb.8 q0,[%1],#16\n"
                     "vstrb.8 q0,[%0],#16\n"
                     "letp lr,1b\n"
                     "2:\n"
                     : "+r"(to), "+r"(from)
                     : "r"(bytes)
                     : "q0", "lr", "memory");
#else
    memcpy(to, from, (size_t)bytes);
#endif
}

static inline void penstock_fill(int8_t *to, int32_t value, int32_t bytes) {
#if PENSTOCK_HAS_MVE
    __asm__ volatile("vdup.8 q0,%1\n"
                     "wlstp.8 lr,%2,2f\n"
                     "1: vstrb.8 q0,[%0],#16\n"
                     "letp lr,1b\n"
                     "2:\n"
                     : "+r"(to)
                     : "r"(value), "r"(bytes)
                     : "q0", "lr", "memory");
#else
    memset(to, value, (size_t)bytes);
#endif
}

/* Clamps outputs to the bounds of the activation. */
static inline void penstock_limit(int8_t *y, int32_t least, int32_t most, int32_t count) {
    if (least == INT8_MIN && most == INT8_MAX) {
        return;
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t at_least = y[k] < least ? least : y[k];
        y[k] = (int8_t)(at_least > most ? most : at_least);
    }
}

/* Scaling of sums: 2^k, and the saturating left shift (24 - shift) after which the top byte of a
 * word is the output. */
struct penstock_scaling {
    int32_t multiplier, left;
};

#if !PENSTOCK_HAS_MVE

static inline int8_t penstock_output(const struct penstock_scaling *scaling, int32_t sum,
                                     int32_t base, int32_t offset, int32_t factor,
                                     int32_t correction) {
    const int32_t shifted = (int32_t)((uint32_t)sum * (uint32_t)scaling->multiplier);
    int32_t t = (int32_t)((uint32_t)shifted + (uint32_t)offset);
    t = (int32_t)((uint32_t)t - (uint32_t)(t < 0 ? correction : 0));
    const int32_t high = (int32_t)((int64_t)t * factor >> 32);
    const int32_t y = (int32_t)((uint32_t)high + (uint32_t)base) >> (24 - scaling->left);
    return (int8_t)(y < INT8_MIN ? INT8_MIN : (y > INT8_MAX ? INT8_MAX : y));
}

/* Dot product of vectors. */
static inline int32_t penstock_dot(const int8_t *x, const int8_t *w, int32_t count, int32_t w_step) {
    int32_t sum = 0;
    for (int32_t k = 0; k < count; k++, x += PENSTOCK_VECTOR, w += w_step) {
        for (int32_t i = 0; i < PENSTOCK_VECTOR; i++) {
            sum += x[i] * w[i];
        }
    }
    return sum;
}

#endif

#endif
