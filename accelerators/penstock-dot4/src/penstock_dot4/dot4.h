/* dot4.h: convolutions and fully connected layers that use an instruction for four int8 products.
 *
 * DOT4(sum, a, b) = sum + a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3], modulo 2^32, where
 * sum is an int32_t, and a and b are uint32_t that hold four int8 each.  Define DOT4 as the
 * compiler intrinsic of the instruction; the default is a function in portable C. */
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

/* Initialises the sums of `columns` columns to `start`, one value per output channel. */
void dot4_begin_sums(int8_t *sums, const int32_t *start, int32_t columns, int32_t out_c);

/* Adds the products of one window row to the sums of columns [first, end).  Inputs are row `at` of
 * the image, or in_zero if `at` is outside [0, in_h).  A window row consists of kernel_w taps of
 * in_c weights; the weights of consecutive output channels are `step` bytes apart. */
void dot4_add_row(int8_t *sums, const int8_t *x, const int8_t *weights, int32_t step, int32_t at,
                  int32_t first, int32_t end, int32_t in_h, int32_t in_w, int32_t in_c,
                  int32_t out_c, int32_t kernel_w, int32_t stride_w, int32_t dilation_w,
                  int32_t pad_left, int32_t in_zero);

/* y = clamp(out_zero + M[o] * sums), M = multiplier * 2^(shift - 31), rounded twice. */
void dot4_finish_sums(const int8_t *sums, const int32_t *multiplier, const int8_t *shift,
                      int8_t *y, int32_t columns, int32_t out_c, int32_t out_zero, int32_t least,
                      int32_t most);

#endif
