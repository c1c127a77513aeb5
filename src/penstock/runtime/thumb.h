/* thumb.h: shared code of kernels for Armv6-M, whose multiplier keeps the low 32 bits of a product.
 *
 * Requantisation of a sum, with constants that the compiler has proved exact:
 *     a = max(sum + bias, -1),   a = min(a, highest)
 *     t = a * low + offset,      t += correction if a < turn
 *     y = (base + a * high + (t >> bits)) >> 24
 * The scale of a channel consists of the words bias, highest, low, [turn, correction,] offset,
 * bits, high, place, base.  `place` is the index of the output in its pixel; turn and correction
 * exist only if the layer is_signed. */
#ifndef PENSTOCK_THUMB_H
#define PENSTOCK_THUMB_H

#include <stdint.h>

#include "words.h"

#if defined(__thumb__) && defined(__ARM_ARCH_PROFILE)
#if __ARM_ARCH_PROFILE == 'M'
#define PENSTOCK_HAS_THUMB 1
#endif
#endif
#ifndef PENSTOCK_HAS_THUMB
#define PENSTOCK_HAS_THUMB 0
#if PENSTOCK_ARM_CORE
#error "The kernels of this bundle need a Cortex-M core, which this Arm core is not. \
Compile for one (-mcpu=cortex-m0plus -mthumb), or run penstock compile for this one (--target)."
#endif
#endif

#if PENSTOCK_HAS_THUMB

/* Clamped numbers of two sums, then their products with `low`.  r7 is the scale. */
#define PENSTOCK_THUMB_CLAMP(sum0, sum1)                                                          \
    "ldm r7!,{r0-r2}\n" /* bias, highest, low */                                                  \
    "mov r4," sum0 "\n"                                                                           \
    "mov r5," sum1 "\n"                                                                           \
    "adds r4,r4,r0\n"                                                                             \
    "adds r5,r5,r0\n"                                                                             \
    "asrs r0,r4,#31\n"                                                                            \
    "orrs r4,r0\n"                                                                                \
    "asrs r0,r5,#31\n"                                                                            \
    "orrs r5,r0\n"                                                                                \
    "cmp r4,r1\n"                                                                                 \
    "ble 91f\n"                                                                                   \
    "mov r4,r1\n"                                                                                 \
    "91:\n"                                                                                       \
    "cmp r5,r1\n"                                                                                 \
    "ble 92f\n"                                                                                   \
    "mov r5,r1\n"                                                                                 \
    "92:\n"                                                                                       \
    "mov r0,r2\n"                                                                                 \
    "muls r0,r4\n"                                                                                \
    "muls r2,r5\n"

#define PENSTOCK_THUMB_CORRECT                                                                    \
    "ldm r7!,{r1,r3}\n" /* turn, correction */                                                    \
    "subs r6,r4,r1\n"                                                                             \
    "asrs r6,r6,#31\n"                                                                            \
    "ands r6,r3\n"                                                                                \
    "adds r0,r0,r6\n"                                                                             \
    "subs r6,r5,r1\n"                                                                             \
    "asrs r6,r6,#31\n"                                                                            \
    "ands r6,r3\n"                                                                                \
    "adds r2,r2,r6\n"

/* Stores both outputs; the addresses of their pixels are on top of the stack. */
#define PENSTOCK_THUMB_STORE                                                                      \
    "ldm r7!,{r1,r3,r6}\n" /* offset, bits, high */                                               \
    "adds r0,r0,r1\n"                                                                             \
    "adds r2,r2,r1\n"                                                                             \
    "asrs r0,r3\n"                                                                                \
    "asrs r2,r3\n"                                                                                \
    "muls r4,r6\n"                                                                                \
    "muls r5,r6\n"                                                                                \
    "ldm r7!,{r1,r3}\n" /* place, base */                                                         \
    "adds r4,r4,r0\n"                                                                             \
    "adds r5,r5,r2\n"                                                                             \
    "adds r4,r4,r3\n"                                                                             \
    "adds r5,r5,r3\n"                                                                             \
    "lsrs r4,r4,#24\n"                                                                            \
    "lsrs r5,r5,#24\n"                                                                            \
    "ldr r0,[sp]\n"                                                                               \
    "ldr r2,[sp,#4]\n"                                                                            \
    "strb r4,[r0,r1]\n"                                                                           \
    "strb r5,[r2,r1]\n"

#define PENSTOCK_THUMB_PLAIN(sum0, sum1) PENSTOCK_THUMB_CLAMP(sum0, sum1) PENSTOCK_THUMB_STORE
#define PENSTOCK_THUMB_SIGNED(sum0, sum1)                                                         \
    PENSTOCK_THUMB_CLAMP(sum0, sum1) PENSTOCK_THUMB_CORRECT PENSTOCK_THUMB_STORE

/* Saves and restores the registers of the caller. */
#define PENSTOCK_THUMB_ENTER                                                                      \
    ".syntax unified\n"                                                                           \
    "push {r4-r7,lr}\n"                                                                           \
    "mov r4,r8\n"                                                                                 \
    "mov r5,r9\n"                                                                                 \
    "mov r6,r10\n"                                                                                \
    "mov r7,r11\n"                                                                                \
    "push {r4-r7}\n"
#define PENSTOCK_THUMB_LEAVE                                                                      \
    "pop {r4-r7}\n"                                                                               \
    "mov r8,r4\n"                                                                                 \
    "mov r9,r5\n"                                                                                 \
    "mov r10,r6\n"                                                                                \
    "mov r11,r7\n"                                                                                \
    "pop {r4-r7,pc}\n"

#endif

/* Word k of a scale. */
static inline int32_t penstock_thumb_word(const int8_t *scale, int32_t k) {
    return (int32_t)penstock_load_word(scale + 4 * k);
}

/* Stores the output of a sum in its pixel; returns the end of the scale. */
static inline const int8_t *penstock_thumb_output(const int8_t *scale, int32_t is_signed,
                                                  int32_t sum, int8_t *pixel) {
    const int32_t highest = penstock_thumb_word(scale, 1);
    int32_t a = (int32_t)((uint32_t)sum + (uint32_t)penstock_thumb_word(scale, 0));
    a = a < -1 ? -1 : (a > highest ? highest : a);
    int32_t t = a * penstock_thumb_word(scale, 2);
    if (is_signed) {
        t += a < penstock_thumb_word(scale, 3) ? penstock_thumb_word(scale, 4) : 0;
        scale += 8;
    }
    t = (t + penstock_thumb_word(scale, 3)) >> penstock_thumb_word(scale, 4);
    const uint32_t product = (uint32_t)a * (uint32_t)penstock_thumb_word(scale, 5);
    const uint32_t y = (uint32_t)penstock_thumb_word(scale, 7) + product + (uint32_t)t;
    pixel[penstock_thumb_word(scale, 6)] = (int8_t)(uint8_t)(y >> 24);
    return scale + 32;
}

#endif
