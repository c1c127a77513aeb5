/* ultra_trail.c: what the engine does, in C; link the driver of the silicon in its place. */
#include "ultra_trail.h"

#include <string.h>

#include "kernels/fixedpoint.h"

enum { FMEM_BYTES = 4096, WMEM_BYTES = 32768, MOST_CHANNELS = 512 };

static int8_t fmem[3][FMEM_BYTES];
static int8_t wmem[WMEM_BYTES];
static int32_t channel_bias[MOST_CHANNELS], channel_multiplier[MOST_CHANNELS];
static int8_t channel_shift[MOST_CHANNELS];

struct layer {
    int32_t in_length, out_length, source, target, padding;
    int32_t in_channels, out_channels, taps, stride, dilation;
    int32_t in_zero, out_zero, least, most;
};

/* Bits [bit, bit + bits) of a word. */
static int32_t field(const int32_t *words, int32_t word, int32_t bit, int32_t bits) {
    return (int32_t)(((uint32_t)words[word] >> bit) & ((UINT32_C(1) << bits) - 1));
}

static struct layer decode(const int32_t *words) {
    const struct layer found = {
        .in_length = field(words, 0, 0, 12) + 1,
        .out_length = field(words, 0, 12, 12) + 1,
        .source = field(words, 0, 24, 2),
        .target = field(words, 0, 26, 2),
        .padding = field(words, 0, 28, 4),
        .in_channels = field(words, 1, 0, 9) + 1,
        .out_channels = field(words, 1, 9, 9) + 1,
        .taps = field(words, 1, 18, 5) + 1,
        .stride = field(words, 1, 23, 4) + 1,
        .dilation = field(words, 1, 27, 4) + 1,
        .in_zero = field(words, 2, 0, 8) - 128,
        .out_zero = field(words, 2, 8, 8) - 128,
        .least = field(words, 2, 16, 8) - 128,
        .most = field(words, 2, 24, 8) - 128,
    };
    return found;
}

void ultra_trail_load_features(const int32_t *words, const int8_t *x) {
    const struct layer n = decode(words);
    memcpy(fmem[n.source], x, (size_t)(n.in_length * n.in_channels));
}

void ultra_trail_load_weights(const int32_t *words, const int8_t *weights, const int32_t *bias,
                              const int32_t *multiplier, const int8_t *shift) {
    const struct layer n = decode(words);
    memcpy(wmem, weights, (size_t)(n.out_channels * n.taps * n.in_channels));
    for (int32_t o = 0; o < n.out_channels; o++) {
        channel_bias[o] = bias[o];
        channel_multiplier[o] = multiplier[o];
        channel_shift[o] = shift[o];
    }
}

/* The sum of an output channel at an output step. */
static int32_t sum_of(const struct layer *n, int32_t step, int32_t channel) {
    int32_t sum = channel_bias[channel];
    for (int32_t tap = 0; tap < n->taps; tap++) {
        const int32_t read = step * n->stride + tap * n->dilation - n->padding;
        if (read < 0 || read >= n->in_length) {
            continue;
        }
        const int8_t *x = fmem[n->source] + read * n->in_channels;
        const int8_t *w = wmem + (channel * n->taps + tap) * n->in_channels;
        for (int32_t c = 0; c < n->in_channels; c++) {
            sum += (x[c] - n->in_zero) * w[c];
        }
    }
    return sum;
}

void ultra_trail_convolve(const int32_t *words) {
    const struct layer n = decode(words);
    int8_t *y = fmem[n.target];
    for (int32_t step = 0; step < n.out_length; step++) {
        for (int32_t o = 0; o < n.out_channels; o++) {
            const int32_t sum = sum_of(&n, step, o);
            const int32_t scaled = penstock_multiply(sum, channel_multiplier[o], channel_shift[o]);
            *y++ = (int8_t)penstock_clamp(scaled + n.out_zero, n.least, n.most);
        }
    }
}

void ultra_trail_store_features(const int32_t *words, int8_t *y) {
    const struct layer n = decode(words);
    memcpy(y, fmem[n.target], (size_t)(n.out_length * n.out_channels));
}

void ultra_trail_layer(const int32_t *words, const int8_t *x, const int8_t *weights,
                       const int32_t *bias, const int32_t *multiplier, const int8_t *shift,
                       int8_t *y) {
    ultra_trail_load_features(words, x);
    ultra_trail_next_layer(words, weights, bias, multiplier, shift, y);
}

void ultra_trail_next_layer(const int32_t *words, const int8_t *weights, const int32_t *bias,
                            const int32_t *multiplier, const int8_t *shift, int8_t *y) {
    ultra_trail_load_weights(words, weights, bias, multiplier, shift);
    ultra_trail_convolve(words);
    ultra_trail_store_features(words, y);
}
