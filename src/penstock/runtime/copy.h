/* copy.h: copies runs of bytes that do not overlap.  A call of `memcpy` takes as long as tens of words,
 * and serves only long runs on cores that do not read words at any address. */
#ifndef PENSTOCK_COPY_H
#define PENSTOCK_COPY_H

#include "view.h"

#if defined(__GNUC__)
#define PENSTOCK_NOT_UNROLLED(count) __asm__("" : "+r"(count))
#define PENSTOCK_OUTLINED __attribute__((noinline, unused)) static
#else
#define PENSTOCK_NOT_UNROLLED(count) (void)0
#define PENSTOCK_OUTLINED static
#endif
#if defined(__arm__) && !defined(__ARM_FEATURE_UNALIGNED)
#define PENSTOCK_LONG_RUN 16
#else
#define PENSTOCK_LONG_RUN 32
#endif

/* Half a block, words, then bytes. */
PENSTOCK_INLINE_KERNEL void penstock_copy_short(int8_t *out, const int8_t *in, int32_t bytes) {
    if (PENSTOCK_LONG_RUN > 16 && bytes >= 16) {
        memcpy(out, in, 16);
        bytes -= 16, in += 16, out += 16;
    }
    for (; bytes >= 4; bytes -= 4, in += 4, out += 4) {
        PENSTOCK_NOT_UNROLLED(bytes);
        memcpy(out, in, 4);
    }
    for (; bytes > 0; bytes--) {
        PENSTOCK_NOT_UNROLLED(bytes);
        *out++ = *in++;
    }
}

/* At least PENSTOCK_LONG_RUN bytes.  Beside their copy, a call is short; its code would be long in every
 * kernel. */
PENSTOCK_OUTLINED void penstock_copy_long(int8_t *out, const int8_t *in, int32_t bytes) {
#if PENSTOCK_LONG_RUN == 16
    memcpy(out, in, (size_t)bytes);
#else
    for (; bytes >= 32; bytes -= 32, in += 32, out += 32) {
        PENSTOCK_NOT_UNROLLED(bytes);
        memcpy(out, in, 16);
        memcpy(out + 16, in + 16, 16);
    }
    if (bytes > 0) {
        penstock_copy_short(out, in, bytes);
    }
#endif
}

PENSTOCK_INLINE_KERNEL void penstock_copy(int8_t *out, const int8_t *in, int32_t bytes) {
    if (bytes >= PENSTOCK_LONG_RUN) {
        penstock_copy_long(out, in, bytes);
    } else {
        penstock_copy_short(out, in, bytes);
    }
}

/* The same for an element, which often has four bytes. */
PENSTOCK_INLINE_KERNEL void penstock_copy_element(int8_t *out, const int8_t *in, int32_t bytes) {
    if (bytes == 4) {
        memcpy(out, in, 4);
    } else {
        penstock_copy(out, in, bytes);
    }
}

#endif
