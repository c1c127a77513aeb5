/* What generic C makes of a 1x1 convolution of four channels, and of requantisation in five
 * constants, three of them of 64 bits; the forms that TVM's pull request 13242 set out from. */
#include <stdint.h>

void generic_sums(const int32_t *tensor, const int16_t *kernel, int32_t *output, int32_t outputs);
void wide_requantisation(const int32_t *sums, int8_t *outputs, int32_t count);

int8_t pool[131072];

#define CHANNELS 64
#define KERNEL_STEP 128 /* as the pull request prints it */

/* Constants in writable memory, so that no compiler knows their values. */
int32_t wide_bias[CHANNELS], wide_input_zero[CHANNELS];
int64_t wide_factor[CHANNELS], wide_rounding[CHANNELS], wide_shift[CHANNELS];

/* Sums of four products, one after the other. */
void generic_sums(const int32_t *tensor, const int16_t *kernel, int32_t *output, int32_t outputs) {
    for (int32_t o = 0; o < outputs; o++) {
        output[o] = 0;
        for (int32_t i = 0; i < 4; i++) {
            output[o] = output[o] + tensor[i] * kernel[o * KERNEL_STEP + i];
        }
    }
}

static int32_t limited(int32_t x, int32_t least, int32_t most) {
    return x < least ? least : (x > most ? most : x);
}

/* Bias, input zero point, factor, rounding and shift of each channel. */
void wide_requantisation(const int32_t *sums, int8_t *outputs, int32_t count) {
    for (int32_t c = 0; c < count; c++) {
        const int64_t sum = (int64_t)sums[c] + wide_bias[c] - wide_input_zero[c];
        const int64_t scaled = (sum * wide_factor[c] + wide_rounding[c]) >> wide_shift[c];
        outputs[c] = (int8_t)limited((int32_t)scaled - 128, -128, 127);
    }
}
