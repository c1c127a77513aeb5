/* dot4.c: the kernels that use DOT4.  Sums are stored as bytes because their address in the arena
 * may be unaligned. */
#include "dot4.h"

#include <string.h>

#include "kernels/fixedpoint.h"
#include "kernels/window.h"

/* The last `count` elements of a run as a word, padded with zeros. */
static uint32_t word_of(const int8_t *bytes, int32_t count) {
    uint32_t word = 0;
    memcpy(&word, bytes, (size_t)count);
    return word;
}

static uint32_t whole_word(const int8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* sum + the dot product of `count` elements with `count` weights. */
static int32_t products(int32_t sum, const int8_t *x, const int8_t *w, int32_t count) {
    for (; count >= 4; count -= 4, x += 4, w += 4) {
        sum = DOT4(sum, whole_word(x), whole_word(w));
    }
    return count ? DOT4(sum, word_of(x, count), word_of(w, count)) : sum;
}

/* sum + the dot product of padding with `count` weights. */
static int32_t padding(int32_t sum, uint32_t zeros, const int8_t *w, int32_t count) {
    for (; count >= 4; count -= 4, w += 4) {
        sum = DOT4(sum, zeros, whole_word(w));
    }
    return count ? DOT4(sum, zeros, word_of(w, count)) : sum;
}

/* sum + the products of `count` taps of the image, `step` elements apart, with their weights. */
static int32_t tap_products(int32_t sum, const int8_t *x, const int8_t *w, int32_t count,
                            int32_t in_c, int32_t step) {
    if (step == in_c) { /* one run of elements */
        return products(sum, x, w, count * in_c);
    }
    for (int32_t tap = 0; tap < count; tap++, x += step, w += in_c) {
        sum = products(sum, x, w, in_c);
    }
    return sum;
}

void dot4_begin_sums(int8_t *sums, const int32_t *start, int32_t columns, int32_t out_c) {
    const size_t size = (size_t)out_c * sizeof *start;
    for (int32_t column = 0; column < columns; column++, sums += size) {
        memcpy(sums, start, size);
    }
}

void dot4_add_row(int8_t *sums, const int8_t *x, const int8_t *weights, int32_t step, int32_t at,
                  int32_t first, int32_t end, int32_t in_h, int32_t in_w, int32_t in_c,
                  int32_t out_c, int32_t kernel_w, int32_t stride_w, int32_t dilation_w,
                  int32_t pad_left, int32_t in_zero) {
    const uint32_t zeros = UINT32_C(0x01010101) * (uint8_t)in_zero;
    for (int32_t column = first; column < end; column++) {
        const int32_t left = column * stride_w - pad_left;
        penstock_span taps = penstock_taps_inside(left, kernel_w, dilation_w, in_w);
        const int8_t *seen = x;
        if (at < 0 || at >= in_h || taps.lower >= taps.upper) {
            taps.lower = taps.upper = 0; /* only padding */
        } else {
            seen += (left + taps.lower * dilation_w) * in_c;
        }
        const int32_t before = taps.lower * in_c, behind = taps.upper * in_c;
        for (int32_t o = 0; o < out_c; o++, sums += sizeof(int32_t)) {
            const int8_t *w = weights + o * step;
            int32_t sum;
            memcpy(&sum, sums, sizeof sum);
            sum = padding(sum, zeros, w, before);
            sum = tap_products(sum, seen, w + before, taps.upper - taps.lower, in_c,
                               dilation_w * in_c);
            sum = padding(sum, zeros, w + behind, kernel_w * in_c - behind);
            memcpy(sums, &sum, sizeof sum);
        }
    }
}

void dot4_finish_sums(const int8_t *sums, const int32_t *multiplier, const int8_t *shift,
                      int8_t *y, int32_t columns, int32_t out_c, int32_t out_zero, int32_t least,
                      int32_t most) {
    for (int32_t column = 0; column < columns; column++) {
        for (int32_t o = 0; o < out_c; o++, sums += sizeof(int32_t)) {
            int32_t sum;
            memcpy(&sum, sums, sizeof sum);
            const int32_t scaled = penstock_multiply(sum, multiplier[o], shift[o]) + out_zero;
            *y++ = (int8_t)penstock_clamp(scaled, least, most);
        }
    }
}
