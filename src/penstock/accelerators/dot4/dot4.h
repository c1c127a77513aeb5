/* dot4.h: convolutions and dense layers around an instruction for four int8 products.
 *
 * DOT4(sum, a, b) = sum + a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3], modulo 2^32, where
 * sum is an int32_t, and a and b are uint32_t that hold four int8 each.  Define it as what the
 * compiler for the core calls its instruction; otherwise it is a function in portable C. */
#ifndef PENSTOCK_DOT4_H
#define PENSTOCK_DOT4_H

#include <stdint.h>

#ifndef DOT4
static inline int32_t penstock_dot4(int32_t sum, uint32_t a, uint32_t b) {
    for (int lane = 0; lane < 32; lane += 8) {
        sum = (int32_t)((uint32_t)sum + (uint32_t)((int8_t)(a >> lane) * (int8_t)(b >> lane)));
    }
    return sum;
}
#define DOT4 penstock_dot4
#endif

/* Sums of `columns` columns of out_c channels begin with `start`. */
void dot4_begin_sums(int8_t *sums, const int32_t *start, int32_t columns, int32_t out_c);

/* Adds to sums of columns [first, end) the products of row `at` of the image, or of in_zero where
 * that is outside [0, in_h), with a row of the window: kernel_w taps of in_c weights; those of the
 * next output are `step` on. */
void dot4_add_row(int8_t *sums, const int8_t *x, const int8_t *weights, int32_t step, int32_t at,
                  int32_t first, int32_t end, int32_t in_h, int32_t in_w, int32_t in_c,
                  int32_t out_c, int32_t kernel_w, int32_t stride_w, int32_t dilation_w,
                  int32_t pad_left, int32_t in_zero);

/* y = clamp(out_zero + M[o] * sums), M = multiplier * 2^(shift - 31), rounded twice. */
void dot4_finish_sums(const int8_t *sums, const int32_t *multiplier, const int8_t *shift,
                      int8_t *y, int32_t columns, int32_t out_c, int32_t out_zero, int32_t least,
                      int32_t most);

#endif
