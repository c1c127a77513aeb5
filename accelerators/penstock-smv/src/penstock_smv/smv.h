/* smv.h: the driver of the smv engine: eight processing elements, and scratchpads for inputs,
 * weights and outputs, a memory of biases, multipliers and shifts, and an accumulator of 32 bits for
 * each byte of the output scratchpad.  Scratchpad offsets and pitches are in bytes.  Settings persist until they
 * are set again.
 *
 * A function may return before its operation completes, provided that operations on the same bytes
 * are executed in order.  With double-buffered tiles, a copy accesses no byte of the preceding
 * computation. */
#ifndef SMV_H
#define SMV_H

#include <stdint.h>

enum { SMV_INPUT, SMV_WEIGHTS, SMV_OUTPUT, SMV_PARAMETERS };
enum { SMV_MAX, SMV_AVERAGE };

/* Selects the engine that executes the following copies and computations.  Each has scratchpads of its
 * own; settings apply to all.  Engines may run at the same time. */
void smv_select(int32_t engine);

/* Waits until the engines have completed all operations. */
void smv_wait(int32_t engines);

/* Sets the strides and dilations of windows. */
void smv_window(int32_t stride_h, int32_t stride_w, int32_t dilation_h, int32_t dilation_w);

/* Sets the zero points and the range of the outputs. */
void smv_numbers(int32_t in_zero, int32_t out_zero, int32_t least, int32_t most);

/* Sets the distances between consecutive rows and columns of tiles, and between the weights of
 * consecutive outputs and taps.  For sums and products, w_output and w_tap are the row and column
 * pitch of b, 0 if b has one element per channel. */
void smv_pitches(int32_t x_row, int32_t x_column, int32_t w_output, int32_t w_tap, int32_t y_row,
                 int32_t y_column);

/* Sets the zero points and multipliers of sums and products: M = multiplier * 2^(shift - 31). */
void smv_terms(int32_t zero0, int32_t zero1, int32_t multiplier0, int32_t shift0,
               int32_t multiplier1, int32_t shift1, int32_t sign1, int32_t out_multiplier,
               int32_t out_shift);

/* Sets the zero points, multiplier and range of the products in smv_batch_norm. */
void smv_scaling(int32_t zero0, int32_t zero1, int32_t out_multiplier, int32_t out_shift,
                 int32_t out_zero, int32_t least, int32_t most);

/* Copies runs of bytes into a scratchpad; a chained copy belongs to the same DMA transfer as the
 * preceding copy. */
void smv_load(int32_t memory, int32_t to, const void *source, int32_t runs, int32_t run_bytes,
              int32_t source_pitch, int32_t pitch, int32_t chained);

/* Copies runs of bytes out of the output scratchpad. */
void smv_store(void *target, int32_t at, int32_t runs, int32_t run_bytes, int32_t target_pitch,
               int32_t pitch, int32_t chained);

/* Convolves a tile: adds the products to the partial sums (accumulate) or to the biases, and
 * requantises complete sums (finish).  x has in_h rows of in_w columns, preceded by pad_top rows
 * and pad_left columns of padding; all elements after them are padding, too.  An output pixel is at
 * y; its elements start at byte y_first.  The partial sum of an element is in the accumulator with the
 * number of the element's byte. */
void smv_conv2d(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                int32_t depth, int32_t kernel_h, int32_t kernel_w, int32_t w, int32_t bias,
                int32_t multiplier, int32_t shift, int32_t y, int32_t y_first, int32_t out_h,
                int32_t out_w, int32_t outputs, int32_t accumulate, int32_t finish);

/* The same of binary16 elements, with sums and biases in float: adds products in the order of the
 * taps and their channels, to partial sums (accumulate) or to 0.  Complete sums (finish) and their
 * biases are clamped to bounds, of which least and most are the bits, and rounded to nearest.  An
 * output pixel begins at y. */
void smv_half_layer(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                    int32_t depth, int32_t kernel_h, int32_t kernel_w, int32_t w, int32_t bias,
                    int32_t y, int32_t out_h, int32_t out_w, int32_t outputs, int32_t least,
                    int32_t most, int32_t accumulate, int32_t finish);

/* Convolves each channel of a tile with its own window, and requantises the sums.  Output channel o
 * reads input channel (skipped + o) / per_channel. */
void smv_depthwise_conv2d(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                          int32_t per_channel, int32_t skipped, int32_t kernel_h, int32_t kernel_w,
                          int32_t w, int32_t bias, int32_t multiplier, int32_t shift, int32_t y,
                          int32_t out_h, int32_t out_w, int32_t channels);

/* As smv_conv2d, for a fully connected layer with `rows` rows of inputs. */
void smv_fully_connected(int32_t x, int32_t rows, int32_t depth, int32_t w, int32_t bias,
                         int32_t multiplier, int32_t shift, int32_t y, int32_t y_first,
                         int32_t outputs, int32_t accumulate, int32_t finish);

/* Multiplies a matrix a (rows x depth) in the scratchpad of inputs by a matrix b (depth x columns) in
 * that of weights.  Zero points and multiplier are those of smv_terms; rows of y are y_column apart. */
void smv_matmul(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t depth, int32_t columns,
                int32_t a_row, int32_t a_inner, int32_t b_inner, int32_t b_column);

/* Pools a tile: the maximum of each window, or the mean of its elements that are not padding. */
void smv_pool(int32_t kind, int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top,
              int32_t pad_left, int32_t kernel_h, int32_t kernel_w, int32_t y, int32_t out_h,
              int32_t out_w, int32_t channels);

/* Sums (differences if sign1 is -1) and products of two tiles; a is in the scratchpad of inputs, b in
 * that of weights. */
void smv_add(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels);
void smv_mul(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels);

/* The larger or the smaller elements of two tiles. */
void smv_extreme(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels,
                 int32_t larger);

/* 1 where a relation holds, 0 elsewhere; relation is the sum of 1 (a < b), 2 (a = b), 4 (a > b).
 * Compares M0 * ((a - zero0) << 8) and M1 * ((b - zero1) << 8) of smv_terms. */
void smv_compare(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels,
                 int32_t relation);

/* Multiplies each element by the factor of its channel, and adds the offset of the channel to the
 * requantised product as smv_add does.  Factors and offsets are in the scratchpad of weights. */
void smv_batch_norm(int32_t x, int32_t factors, int32_t offsets, int32_t y, int32_t rows,
                    int32_t columns, int32_t channels);

/* Replaces each element by the entry at its value + 128 of a table of 256 bytes, which is in the
 * scratchpad of weights. */
void smv_lookup(int32_t x, int32_t table, int32_t y, int32_t rows, int32_t columns,
                int32_t channels);

/* Computes the softmax of each vector of channels.  The table of 256 int32, in the scratchpad of
 * weights, holds exponentials by difference to the vector's maximum, with 31 fractional bits. */
void smv_softmax(int32_t x, int32_t table, int32_t y, int32_t rows, int32_t columns,
                 int32_t channels);

#endif
