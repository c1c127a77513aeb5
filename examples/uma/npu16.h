/* npu16.h: driver functions of npu16, an engine with 16 KiB of local memory.
 *
 * Offsets in the local memory and distances are in bytes, other sizes in elements. */
#ifndef NPU16_H
#define NPU16_H
#include <stdint.h>

/* Copies `runs` runs of `run_bytes` bytes to the local memory, from offset `local` on.
 * `pitch`, `local_pitch`: the distance between runs in memory and in the local memory. */
void npu16_load(int32_t local, const void *source, int32_t runs, int32_t run_bytes, int32_t pitch,
                int32_t local_pitch);

/* Copies runs from the local memory to memory. */
void npu16_store(int32_t local, void *target, int32_t runs, int32_t run_bytes, int32_t pitch,
                 int32_t local_pitch);

/* Computes a tile: kind 0 is a convolution, 1 depthwise, 2 the maximum, 3 the mean of windows.
 *
 * x, w, scales, y: offsets of input, weights, scales and output.  Each channel has three scales:
 *     bias, multiplier and shift.
 * in_h, in_w, in_c; out_h, out_w, out_c: the sizes of input and output, without padding.
 * top, left: the padding before the input.
 * x_row, x_column, y_row, y_column, w_tap: the distance between rows, columns and taps. */
void npu16_compute(int32_t kind, int32_t x, int32_t in_h, int32_t in_w, int32_t in_c, int32_t top,
                   int32_t left, int32_t x_row, int32_t x_column, int32_t y, int32_t out_h,
                   int32_t out_w, int32_t out_c, int32_t y_row, int32_t y_column, int32_t kernel_h,
                   int32_t kernel_w, int32_t stride_h, int32_t stride_w, int32_t least,
                   int32_t most, int32_t w, int32_t w_tap, int32_t scales, int32_t in_zero,
                   int32_t out_zero);
#endif
