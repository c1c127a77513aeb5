/* vanilla.h: the driver of the vanilla accelerator. */
#ifndef VANILLA_H
#define VANILLA_H

#include <stdint.h>

/* Convolves one int8 image in HWC layout; the weights are in OHWI layout.
 * y = clamp(out_zero + M[o] * (bias[o] + sum (x - in_zero) * weights)), M = multiplier * 2^(shift -
 * 31), rounded as in TFLite's reference; padding counts as in_zero. */
void vanilla_conv2d(const int8_t *x, const int8_t *weights, const int32_t *bias,
                    const int32_t *multiplier, const int8_t *shift, int8_t *y, int32_t in_h,
                    int32_t in_w, int32_t in_c, int32_t out_h, int32_t out_w, int32_t out_c,
                    int32_t kernel_h, int32_t kernel_w, int32_t stride_h, int32_t stride_w,
                    int32_t dilation_h, int32_t dilation_w, int32_t pad_top, int32_t pad_left,
                    int32_t in_zero, int32_t out_zero, int32_t least, int32_t most);

#endif
