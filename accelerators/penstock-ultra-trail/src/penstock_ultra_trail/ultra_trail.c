/* ultra_trail.c: C implementation of the driver; link the driver of the hardware in its place. */
#include "ultra_trail.h"

#include <string.h>

#include "kernels/fixedpoint.h"
#include "ultra_trail_config.h"

/* The memories, of which this model has as much as the network uses. */
static int8_t fmem[3][ULTRA_TRAIL_FMEM_BYTES];
static int8_t wmem[ULTRA_TRAIL_WMEM_BYTES];
static int32_t channel_bias[ULTRA_TRAIL_CHANNELS], channel_multiplier[ULTRA_TRAIL_CHANNELS];
static int8_t channel_shift[ULTRA_TRAIL_CHANNELS];

struct layer {
    int32_t in_length, out_length, padding;
    int32_t in_c, out_c, taps, stride, dilation;
    int32_t in_zero, out_zero, least, most;
};

/* Bits [bit, bit + bits) of a word. */
static int32_t field(const int32_t *words, int32_t word, int32_t bit, int32_t bits) {
    return (int32_t)(((uint32_t)words[word] >> bit) & ((UINT32_C(1) << bits) - 1));
}

/* Bits [bit, bit + 8) of word 2 as a signed number. */
static int32_t signed_field(const int32_t *words, int32_t bit) {
    const int32_t found = field(words, 2, bit, 8);
    return found < 128 ? found : found - 256;
}

static struct layer decode(const int32_t *words) {
    const struct layer found = {
        .in_length = field(words, 0, 0, 12),
        .out_length = field(words, 0, 12, 12),
        .padding = field(words, 0, 24, 8),
        .in_c = field(words, 1, 0, 9),
        .out_c = field(words, 1, 9, 9),
        .taps = field(words, 1, 18, 5),
        .stride = field(words, 1, 23, 4),
        .dilation = field(words, 1, 27, 5),
        .in_zero = signed_field(words, 0),
        .out_zero = signed_field(words, 8),
        .least = signed_field(words, 16),
        .most = signed_field(words, 24),
    };
    return found;
}

void ultra_trail_load_features(const int32_t *words, int32_t memory, const int8_t *x) {
    const struct layer n = decode(words);
    memcpy(fmem[memory], x, (size_t)(n.in_length * n.in_c));
}

void ultra_trail_load_weights(const int32_t *words, const int8_t *weights, const int32_t *bias,
                              const int32_t *multiplier, const int8_t *shift) {
    const struct layer n = decode(words);
    memcpy(wmem, weights, (size_t)(n.out_c * n.taps * n.in_c));
    for (int32_t o = 0; o < n.out_c; o++) {
        channel_bias[o] = bias[o];
        channel_multiplier[o] = multiplier[o];
        channel_shift[o] = shift[o];
    }
}

/* The accumulator of an output channel at an output step. */
static int32_t sum_of(const struct layer *n, const int8_t *source, int32_t step, int32_t channel) {
    int32_t sum = channel_bias[channel];
    for (int32_t tap = 0; tap < n->taps; tap++) {
        const int32_t read = step * n->stride + tap * n->dilation - n->padding;
        if (read < 0 || read >= n->in_length) {
            continue;
        }
        const int8_t *x = source + read * n->in_c;
        const int8_t *w = wmem + (channel * n->taps + tap) * n->in_c;
        for (int32_t c = 0; c < n->in_c; c++) {
            sum += (x[c] - n->in_zero) * w[c];
        }
    }
    return sum;
}

void ultra_trail_convolve(const int32_t *words, int32_t source, int32_t target) {
    const struct layer n = decode(words);
    int8_t *y = fmem[target];
    for (int32_t step = 0; step < n.out_length; step++) {
        for (int32_t o = 0; o < n.out_c; o++) {
            const int32_t sum = sum_of(&n, fmem[source], step, o);
            const int32_t scaled = penstock_multiply(sum, channel_multiplier[o], channel_shift[o]);
            *y++ = (int8_t)penstock_clamp(scaled + n.out_zero, n.least, n.most);
        }
    }
}

void ultra_trail_store_features(const int32_t *words, int32_t memory, int8_t *y) {
    const struct layer n = decode(words);
    memcpy(y, fmem[memory], (size_t)(n.out_length * n.out_c));
}
