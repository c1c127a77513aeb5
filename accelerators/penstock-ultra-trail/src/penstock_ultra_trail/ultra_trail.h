/* ultra_trail.h: the driver of the engine.  `words` are the three configuration words of a layer:
 *
 *   word 0  in_length [0, 12)  out_length [12, 24)  padding [24, 32)
 *   word 1  in_c [0, 9)  out_c [9, 18)  taps [18, 23)  stride [23, 27)
 *           dilation [27, 32)
 *   word 2  in_zero [0, 8)  out_zero [8, 16)  least [16, 24)  most [24, 32)
 *
 * Bit ranges [lower, upper) are half-open; the fields of word 2 are signed.  The engine has three
 * feature memories of 4 KiB and a weight memory of 32 KiB. */
#ifndef ULTRA_TRAIL_H
#define ULTRA_TRAIL_H

#include <stdint.h>

/* Copies the input features (steps, channels) into a feature memory. */
void ultra_trail_load_features(const int32_t *words, int32_t fmem, const int8_t *x);

/* Loads the weights (output channels, taps, input channels), and bias, multiplier and shift of each
 * output channel. */
void ultra_trail_load_weights(const int32_t *words, const int8_t *weights, const int32_t *bias,
                              const int32_t *multiplier, const int8_t *shift);

/* target = clamp(out_zero + M[o] * (bias[o] + sum (source - in_zero) * weights)), M = multiplier *
 * 2^(shift - 31), rounded as in TFLite's reference; padding counts as in_zero. */
void ultra_trail_convolve(const int32_t *words, int32_t source, int32_t target);

/* Copies the output features out of a feature memory. */
void ultra_trail_store_features(const int32_t *words, int32_t fmem, int8_t *y);

#endif
