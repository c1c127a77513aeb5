/* npu16.c: a stub of the driver, which computes on the processor. */
#include "npu16.h"

#include <string.h>

static _Alignas(4) int8_t memory[16384];

void npu16_load(int32_t local, const void *source, int32_t runs, int32_t run_bytes, int32_t pitch,
                int32_t local_pitch) {
    for (int32_t k = 0; k < runs; k++) {
        memcpy(memory + local + k * local_pitch, (const int8_t *)source + k * pitch,
               (size_t)run_bytes);
    }
}

void npu16_store(int32_t local, void *target, int32_t runs, int32_t run_bytes, int32_t pitch,
                 int32_t local_pitch) {
    for (int32_t k = 0; k < runs; k++) {
        memcpy((int8_t *)target + k * pitch, memory + local + k * local_pitch, (size_t)run_bytes);
    }
}

/* sum * multiplier * 2^(shift - 31), rounded twice as in TFLite. */
static int32_t scaled(int32_t sum, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int64_t product = (int64_t)(int32_t)((uint32_t)sum << left) * multiplier;
    const int64_t high = (product + (INT64_C(1) << 30)) >> 31;
    const int64_t mask = (INT64_C(1) << right) - 1;
    return (int32_t)((high >> right) + ((high & mask) > (mask >> 1) + (high < 0)));
}

void npu16_compute(int32_t kind, int32_t x, int32_t in_h, int32_t in_w, int32_t in_c, int32_t top,
                   int32_t left, int32_t x_row, int32_t x_column, int32_t y, int32_t out_h,
                   int32_t out_w, int32_t out_c, int32_t y_row, int32_t y_column, int32_t kernel_h,
                   int32_t kernel_w, int32_t stride_h, int32_t stride_w, int32_t least,
                   int32_t most, int32_t w, int32_t w_tap, int32_t scales, int32_t in_zero,
                   int32_t out_zero) {
    for (int32_t k = 0; k < out_h * out_w * out_c; k++) {
        const int32_t o = k % out_c, column = k / out_c % out_w, row = k / out_c / out_w;
        int32_t sum = 0, count = 0, greatest = -128;
        for (int32_t tap = 0; tap < kernel_h * kernel_w; tap++) {
            const int32_t i = tap / kernel_w, j = tap % kernel_w;
            const int32_t r = row * stride_h + i - top, c = column * stride_w + j - left;
            if (r < 0 || r >= in_h || c < 0 || c >= in_w) {
                continue;
            }
            const int8_t *in = memory + x + r * x_row + c * x_column;
            const int32_t output = kind == 0 ? o * kernel_h * kernel_w : 0;
            const int8_t *weight = memory + w + (output + tap) * w_tap;
            count++;
            for (int32_t n = 0; kind == 0 && n < in_c; n++) {
                sum += (in[n] - in_zero) * weight[n];
            }
            if (kind > 0) {
                sum += kind == 1 ? (in[o] - in_zero) * weight[o] : in[o];
                greatest = in[o] > greatest ? in[o] : greatest;
            }
        }
        int32_t found = greatest;
        if (kind < 2) {
            int32_t scale[3];
            memcpy(scale, memory + scales + 12 * o, sizeof scale);
            found = scaled(sum + scale[0], scale[1], scale[2]) + out_zero;
        } else if (kind == 3) {
            found = sum < 0 ? -((-sum + count / 2) / count) : (sum + count / 2) / count;
        }
        found = found < least ? least : found > most ? most : found;
        memory[y + row * y_row + column * y_column + o] = (int8_t)found;
    }
}
