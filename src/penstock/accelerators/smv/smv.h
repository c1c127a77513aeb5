/* smv.h: the driver of the smv engine: eight processing elements, and scratchpads of inputs, weights
 * and outputs.  Places in scratchpads and pitches are bytes; what is set holds until it is set anew.
 *
 * A function may come back before its work is done, as long as works on the same bytes keep their
 * order: where tiles are double-buffered, a copy touches no byte of the computation before it. */
#ifndef SMV_H
#define SMV_H

#include <stdint.h>

enum { SMV_INPUT, SMV_WEIGHTS, SMV_OUTPUT };
enum { SMV_MAX, SMV_AVERAGE };

/* How windows move. */
void smv_window(int32_t stride_h, int32_t stride_w, int32_t dilation_h, int32_t dilation_w);

/* Zero points, and the range of the outputs. */
void smv_numbers(int32_t in_zero, int32_t out_zero, int32_t least, int32_t most);

/* From a row or column of a tile, or from the weights of an output or tap, to the next; w_output and
 * w_tap are those of the rows and columns of b in sums and products. */
void smv_pitches(int32_t x_row, int32_t x_column, int32_t w_output, int32_t w_tap, int32_t y_row,
                 int32_t y_column);

/* Multipliers of sums and products: M = multiplier * 2^(shift - 31). */
void smv_terms(int32_t zero0, int32_t zero1, int32_t multiplier0, int32_t shift0,
               int32_t multiplier1, int32_t shift1, int32_t sign1, int32_t out_multiplier,
               int32_t out_shift);

/* Copies runs of bytes into a scratchpad; a chained copy begins with the one before. */
void smv_load(int32_t memory, int32_t to, const void *source, int32_t runs, int32_t run_bytes,
              int32_t source_pitch, int32_t pitch, int32_t chained);

/* Copies runs of bytes out of the outputs' scratchpad. */
void smv_store(void *target, int32_t at, int32_t runs, int32_t run_bytes, int32_t target_pitch,
               int32_t pitch, int32_t chained);

/* Products of a tile, summed up: with the sums before (accumulate) or with the biases; requantised
 * at last (finish).  x has in_h rows of in_w columns; pad_top and pad_left rows and columns before
 * them, and all behind them, are padding.  A pixel of outputs lies at y: its elements from byte
 * y_first, its sums, while they are not complete, from byte 4 * y_first. */
void smv_conv2d(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                int32_t depth, int32_t kernel_h, int32_t kernel_w, int32_t w, int32_t bias,
                int32_t multiplier, int32_t shift, int32_t y, int32_t y_first, int32_t out_h,
                int32_t out_w, int32_t outputs, int32_t accumulate, int32_t finish);

/* The same for rows of inputs without windows. */
void smv_fully_connected(int32_t x, int32_t rows, int32_t depth, int32_t w, int32_t bias,
                         int32_t multiplier, int32_t shift, int32_t y, int32_t y_first,
                         int32_t outputs, int32_t accumulate, int32_t finish);

/* The largest element under a window, or the mean of those that are no padding. */
void smv_pool(int32_t kind, int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top,
              int32_t pad_left, int32_t kernel_h, int32_t kernel_w, int32_t y, int32_t out_h,
              int32_t out_w, int32_t channels);

/* Sums (differences, where sign1 is -1) and products of two tiles of inputs. */
void smv_add(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels);
void smv_mul(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels);

#endif
