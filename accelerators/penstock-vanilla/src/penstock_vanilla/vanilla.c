/* vanilla.c: C implementation of the driver; link the driver of the hardware in its place. */
#include "vanilla.h"

#include "kernels/fixedpoint.h"

void vanilla_conv2d(const int8_t *x, const int8_t *weights, const int32_t *bias,
                    const int32_t *multiplier, const int8_t *shift, int8_t *y, int32_t in_h,
                    int32_t in_w, int32_t in_c, int32_t out_h, int32_t out_w, int32_t out_c,
                    int32_t kernel_h, int32_t kernel_w, int32_t stride_h, int32_t stride_w,
                    int32_t dilation_h, int32_t dilation_w, int32_t pad_top, int32_t pad_left,
                    int32_t in_zero, int32_t out_zero, int32_t least, int32_t most) {
    for (int32_t i = 0; i < out_h * out_w * out_c; i++) {
        const int32_t o = i % out_c, column = i / out_c % out_w, row = i / out_c / out_w;
        int32_t sum = bias[o];
        for (int32_t tap = 0; tap < kernel_h * kernel_w; tap++) {
            const int32_t r = row * stride_h + tap / kernel_w * dilation_h - pad_top;
            const int32_t c = column * stride_w + tap % kernel_w * dilation_w - pad_left;
            if (r < 0 || r >= in_h || c < 0 || c >= in_w) {
                continue;
            }
            const int8_t *a = x + (r * in_w + c) * in_c;
            const int8_t *w = weights + (o * kernel_h * kernel_w + tap) * in_c;
            for (int32_t k = 0; k < in_c; k++) {
                sum += (a[k] - in_zero) * w[k];
            }
        }
        const int32_t scaled = penstock_multiply(sum, multiplier[o], shift[o]) + out_zero;
        y[i] = (int8_t)penstock_clamp(scaled, least, most);
    }
}
