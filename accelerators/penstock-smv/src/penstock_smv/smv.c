/* smv.c: C implementation of the driver; link the driver of the hardware in its place.
 * An access outside a scratchpad aborts the program. */
#include "smv.h"

#include <string.h>

#include "kernels/fixedpoint.h"
#include "kernels/half.h"
#include "kernels/real.h"
#include "smv_sizes.h"

static int8_t inputs_memory[SMV_ENGINES][SMV_INPUT_BYTES];
static int8_t weights_memory[SMV_ENGINES][SMV_WEIGHTS_BYTES];
static int8_t outputs_memory[SMV_ENGINES][SMV_OUTPUT_BYTES];
static int8_t parameters_memory[SMV_ENGINES][SMV_PARAMETERS_BYTES];
static int32_t accumulators[SMV_ENGINES][SMV_OUTPUT_BYTES];
static int32_t selected;

static struct {
    int32_t stride_h, stride_w, dilation_h, dilation_w;
} window;
static struct {
    int32_t in_zero, out_zero, least, most;
} numbers;
static struct {
    int32_t x_row, x_column, w_output, w_tap, y_row, y_column;
} pitches;
static struct {
    int32_t zero0, zero1, multiplier0, shift0, multiplier1, shift1, sign1, out_multiplier;
    int32_t out_shift;
} terms;
static struct {
    int32_t zero0, zero1, out_multiplier, out_shift, out_zero, least, most;
} products;

/* Address of `count` bytes at offset `at` of a scratchpad; traps if they are out of bounds. */
static int8_t *bytes(int32_t memory, int32_t at, int32_t count) {
    int8_t *const memories[] = {inputs_memory[selected], weights_memory[selected],
                                outputs_memory[selected], parameters_memory[selected]};
    const int32_t sizes[] = {SMV_INPUT_BYTES, SMV_WEIGHTS_BYTES, SMV_OUTPUT_BYTES,
                             SMV_PARAMETERS_BYTES};
    if (at < 0 || count < 0 || at > sizes[memory] - count) {
        __builtin_trap();
    }
    return memories[memory] + at;
}

static int32_t word(int32_t memory, int32_t at) {
    int32_t value;
    memcpy(&value, bytes(memory, at, 4), 4);
    return value;
}

void smv_select(int32_t engine) {
    if (engine < 0 || engine >= SMV_ENGINES) {
        __builtin_trap();
    }
    selected = engine;
}

void smv_wait(int32_t engines) { (void)engines; }

void smv_window(int32_t stride_h, int32_t stride_w, int32_t dilation_h, int32_t dilation_w) {
    window.stride_h = stride_h;
    window.stride_w = stride_w;
    window.dilation_h = dilation_h;
    window.dilation_w = dilation_w;
}

void smv_numbers(int32_t in_zero, int32_t out_zero, int32_t least, int32_t most) {
    numbers.in_zero = in_zero;
    numbers.out_zero = out_zero;
    numbers.least = least;
    numbers.most = most;
}

void smv_pitches(int32_t x_row, int32_t x_column, int32_t w_output, int32_t w_tap, int32_t y_row,
                 int32_t y_column) {
    pitches.x_row = x_row;
    pitches.x_column = x_column;
    pitches.w_output = w_output;
    pitches.w_tap = w_tap;
    pitches.y_row = y_row;
    pitches.y_column = y_column;
}

void smv_terms(int32_t zero0, int32_t zero1, int32_t multiplier0, int32_t shift0,
               int32_t multiplier1, int32_t shift1, int32_t sign1, int32_t out_multiplier,
               int32_t out_shift) {
    terms.zero0 = zero0;
    terms.zero1 = zero1;
    terms.multiplier0 = multiplier0;
    terms.shift0 = shift0;
    terms.multiplier1 = multiplier1;
    terms.shift1 = shift1;
    terms.sign1 = sign1;
    terms.out_multiplier = out_multiplier;
    terms.out_shift = out_shift;
}

void smv_scaling(int32_t zero0, int32_t zero1, int32_t out_multiplier, int32_t out_shift,
                 int32_t out_zero, int32_t least, int32_t most) {
    products.zero0 = zero0;
    products.zero1 = zero1;
    products.out_multiplier = out_multiplier;
    products.out_shift = out_shift;
    products.out_zero = out_zero;
    products.least = least;
    products.most = most;
}

void smv_load(int32_t memory, int32_t to, const void *source, int32_t runs, int32_t run_bytes,
              int32_t source_pitch, int32_t pitch, int32_t chained) {
    (void)chained;
    const int8_t *from = source;
    for (int32_t run = 0; run < runs; run++) {
        int8_t *const place = bytes(memory, to + run * pitch, run_bytes);
        memcpy(place, from + run * source_pitch, (size_t)run_bytes);
    }
}

void smv_store(void *target, int32_t at, int32_t runs, int32_t run_bytes, int32_t target_pitch,
               int32_t pitch, int32_t chained) {
    (void)chained;
    int8_t *to = target;
    for (int32_t run = 0; run < runs; run++) {
        const int8_t *const place = bytes(SMV_OUTPUT, at + run * pitch, run_bytes);
        memcpy(to + run * target_pitch, place, (size_t)run_bytes);
    }
}

static int8_t in_range(int32_t scaled) {
    return (int8_t)penstock_clamp(scaled + numbers.out_zero, numbers.least, numbers.most);
}

/* Adds `sum` to the partial sum of output o of the pixel at y, or to its bias; requantises the
 * result if `finish` is set. */
static void finish_sum(int32_t sum, int32_t o, int32_t bias, int32_t multiplier, int32_t shift,
                       int32_t y, int32_t y_first, int32_t accumulate, int32_t finish) {
    int8_t *const element = bytes(SMV_OUTPUT, y + y_first + o, 1);
    int32_t *const partial = accumulators[selected] + (y + y_first + o);
    sum += accumulate ? *partial : word(SMV_PARAMETERS, bias + 4 * o);
    if (finish) {
        const int32_t by = word(SMV_PARAMETERS, multiplier + 4 * o);
        *element = in_range(penstock_multiply(sum, by, *bytes(SMV_PARAMETERS, shift + o, 1)));
    } else {
        *partial = sum;
    }
}

static int32_t dot(int32_t x, int32_t w, int32_t depth) {
    const int8_t *const a = bytes(SMV_INPUT, x, depth);
    const int8_t *const b = bytes(SMV_WEIGHTS, w, depth);
    int32_t sum = 0;
    for (int32_t c = 0; c < depth; c++) {
        sum += (a[c] - numbers.in_zero) * b[c];
    }
    return sum;
}

void smv_conv2d(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                int32_t depth, int32_t kernel_h, int32_t kernel_w, int32_t w, int32_t bias,
                int32_t multiplier, int32_t shift, int32_t y, int32_t y_first, int32_t out_h,
                int32_t out_w, int32_t outputs, int32_t accumulate, int32_t finish) {
    for (int32_t i = 0; i < out_h * out_w; i++) {
        const int32_t row = i / out_w, column = i % out_w;
        const int32_t pixel = y + row * pitches.y_row + column * pitches.y_column;
        for (int32_t o = 0; o < outputs; o++) {
            int32_t sum = 0;
            for (int32_t tap = 0; tap < kernel_h * kernel_w; tap++) {
                const int32_t r =
                    row * window.stride_h + tap / kernel_w * window.dilation_h - pad_top;
                const int32_t c =
                    column * window.stride_w + tap % kernel_w * window.dilation_w - pad_left;
                if (r >= 0 && r < in_h && c >= 0 && c < in_w) {
                    sum += dot(x + r * pitches.x_row + c * pitches.x_column,
                               w + o * pitches.w_output + tap * pitches.w_tap, depth);
                }
            }
            finish_sum(sum, o, bias, multiplier, shift, pixel, y_first, accumulate, finish);
        }
    }
}

static float half(int32_t memory, int32_t at) {
    uint16_t element;
    memcpy(&element, bytes(memory, at, 2), 2);
    return penstock_of_half(element);
}

/* `sum` and the products of one tap; products of halves are exact in float. */
static float half_dot(float sum, int32_t x, int32_t w, int32_t depth) {
    for (int32_t c = 0; c < depth; c++) {
        sum += half(SMV_INPUT, x + 2 * c) * half(SMV_WEIGHTS, w + 2 * c);
    }
    return sum;
}

void smv_half_layer(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                    int32_t depth, int32_t kernel_h, int32_t kernel_w, int32_t w, int32_t bias,
                    int32_t y, int32_t out_h, int32_t out_w, int32_t outputs, int32_t least,
                    int32_t most, int32_t accumulate, int32_t finish) {
    const float bounds[] = {penstock_float_of((uint32_t)least), penstock_float_of((uint32_t)most)};
    for (int32_t i = 0; i < out_h * out_w; i++) {
        const int32_t row = i / out_w, column = i % out_w;
        for (int32_t o = 0; o < outputs; o++) {
            const int32_t at = y + row * pitches.y_row + column * pitches.y_column + 2 * o;
            int8_t *const element = bytes(SMV_OUTPUT, at, 2);
            int32_t *const partial = accumulators[selected] + at;
            float sum = accumulate ? penstock_float_of((uint32_t)*partial) : 0.0f;
            for (int32_t tap = 0; tap < kernel_h * kernel_w; tap++) {
                const int32_t r =
                    row * window.stride_h + tap / kernel_w * window.dilation_h - pad_top;
                const int32_t c =
                    column * window.stride_w + tap % kernel_w * window.dilation_w - pad_left;
                if (r >= 0 && r < in_h && c >= 0 && c < in_w) {
                    sum = half_dot(sum, x + r * pitches.x_row + c * pitches.x_column,
                                   w + o * pitches.w_output + tap * pitches.w_tap, depth);
                }
            }
            if (!finish) {
                *partial = (int32_t)penstock_bits_of(sum);
                continue;
            }
            sum += penstock_float_of((uint32_t)word(SMV_PARAMETERS, bias + 4 * o));
            const uint16_t rounded = penstock_half_of(penstock_bounded_f32(sum, bounds));
            memcpy(element, &rounded, 2);
        }
    }
}

void smv_depthwise_conv2d(int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top, int32_t pad_left,
                          int32_t per_channel, int32_t skipped, int32_t kernel_h, int32_t kernel_w,
                          int32_t w, int32_t bias, int32_t multiplier, int32_t shift, int32_t y,
                          int32_t out_h, int32_t out_w, int32_t channels) {
    for (int32_t i = 0; i < out_h * out_w; i++) {
        const int32_t row = i / out_w, column = i % out_w;
        const int32_t pixel = y + row * pitches.y_row + column * pitches.y_column;
        for (int32_t o = 0; o < channels; o++) {
            const int32_t channel = (skipped + o) / per_channel;
            int32_t sum = 0;
            for (int32_t tap = 0; tap < kernel_h * kernel_w; tap++) {
                const int32_t r =
                    row * window.stride_h + tap / kernel_w * window.dilation_h - pad_top;
                const int32_t c =
                    column * window.stride_w + tap % kernel_w * window.dilation_w - pad_left;
                if (r >= 0 && r < in_h && c >= 0 && c < in_w) {
                    const int32_t at = x + r * pitches.x_row + c * pitches.x_column + channel;
                    sum += (*bytes(SMV_INPUT, at, 1) - numbers.in_zero) *
                           *bytes(SMV_WEIGHTS, w + tap * pitches.w_tap + o, 1);
                }
            }
            finish_sum(sum, o, bias, multiplier, shift, pixel, 0, 0, 1);
        }
    }
}

void smv_fully_connected(int32_t x, int32_t rows, int32_t depth, int32_t w, int32_t bias,
                         int32_t multiplier, int32_t shift, int32_t y, int32_t y_first,
                         int32_t outputs, int32_t accumulate, int32_t finish) {
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t o = 0; o < outputs; o++) {
            const int32_t sum = dot(x + row * pitches.x_row, w + o * pitches.w_output, depth);
            finish_sum(sum, o, bias, multiplier, shift, y + row * pitches.y_row, y_first,
                       accumulate, finish);
        }
    }
}

/* Pools one channel of the window whose first element is at row `top` and column `left` of the
 * tile. */
static int32_t pooled(int32_t kind, int32_t x, int32_t in_h, int32_t in_w, int32_t top,
                      int32_t left, int32_t kernel_h, int32_t kernel_w) {
    int32_t largest = INT8_MIN, sum = 0, count = 0;
    for (int32_t tap = 0; tap < kernel_h * kernel_w; tap++) {
        const int32_t r = top + tap / kernel_w, c = left + tap % kernel_w;
        if (r >= 0 && r < in_h && c >= 0 && c < in_w) {
            const int32_t element =
                *bytes(SMV_INPUT, x + r * pitches.x_row + c * pitches.x_column, 1);
            largest = element > largest ? element : largest;
            sum += element;
            count++;
        }
    }
    if (kind == SMV_MAX) {
        return largest;
    }
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

void smv_pool(int32_t kind, int32_t x, int32_t in_h, int32_t in_w, int32_t pad_top,
              int32_t pad_left, int32_t kernel_h, int32_t kernel_w, int32_t y, int32_t out_h,
              int32_t out_w, int32_t channels) {
    for (int32_t i = 0; i < out_h * out_w; i++) {
        const int32_t row = i / out_w, column = i % out_w;
        const int32_t top = row * window.stride_h - pad_top;
        const int32_t left = column * window.stride_w - pad_left;
        const int32_t pixel = y + row * pitches.y_row + column * pitches.y_column;
        for (int32_t c = 0; c < channels; c++) {
            const int32_t found = pooled(kind, x + c, in_h, in_w, top, left, kernel_h, kernel_w);
            *bytes(SMV_OUTPUT, pixel + c, 1) =
                (int8_t)penstock_clamp(found, numbers.least, numbers.most);
        }
    }
}

static int32_t sum_of(int32_t left, int32_t right) {
    const int32_t a = penstock_multiply(left * (1 << 20), terms.multiplier0, terms.shift0);
    const int32_t b = penstock_multiply(right * (1 << 20), terms.multiplier1, terms.shift1);
    return a + terms.sign1 * b;
}

/* Element of a sum or product, from its value before requantisation. */
static int8_t requantised(int32_t value) {
    return in_range(penstock_multiply(value, terms.out_multiplier, terms.out_shift));
}

static int8_t added(int32_t a, int32_t b, int32_t unused) {
    (void)unused;
    return requantised(sum_of(a - terms.zero0, b - terms.zero1));
}

static int8_t multiplied(int32_t a, int32_t b, int32_t unused) {
    (void)unused;
    return requantised((a - terms.zero0) * (b - terms.zero1));
}

static int8_t extreme(int32_t a, int32_t b, int32_t larger) {
    return (int8_t)((a > b) == (larger != 0) ? a : b);
}

static int8_t compared(int32_t a, int32_t b, int32_t relation) {
    const int32_t left =
        penstock_multiply((a - terms.zero0) * (1 << 8), terms.multiplier0, terms.shift0);
    const int32_t right =
        penstock_multiply((b - terms.zero1) * (1 << 8), terms.multiplier1, terms.shift1);
    return (int8_t)((relation >> ((left > right) - (left < right) + 1)) & 1);
}

static void elementwise(int8_t (*of)(int32_t, int32_t, int32_t), int32_t a, int32_t b, int32_t y,
                        int32_t rows, int32_t columns, int32_t channels, int32_t option) {
    for (int32_t i = 0; i < rows * columns; i++) {
        const int32_t row = i / columns, column = i % columns;
        const int8_t *const left =
            bytes(SMV_INPUT, a + row * pitches.x_row + column * pitches.x_column, channels);
        const int8_t *const right =
            bytes(SMV_WEIGHTS, b + row * pitches.w_output + column * pitches.w_tap, channels);
        int8_t *const out =
            bytes(SMV_OUTPUT, y + row * pitches.y_row + column * pitches.y_column, channels);
        for (int32_t c = 0; c < channels; c++) {
            out[c] = of(left[c], right[c], option);
        }
    }
}

void smv_add(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels) {
    elementwise(added, a, b, y, rows, columns, channels, 0);
}

void smv_mul(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels) {
    elementwise(multiplied, a, b, y, rows, columns, channels, 0);
}

void smv_extreme(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels,
                 int32_t larger) {
    elementwise(extreme, a, b, y, rows, columns, channels, larger);
}

void smv_compare(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t columns, int32_t channels,
                 int32_t relation) {
    elementwise(compared, a, b, y, rows, columns, channels, relation);
}

void smv_batch_norm(int32_t x, int32_t factors, int32_t offsets, int32_t y, int32_t rows,
                    int32_t columns, int32_t channels) {
    const int8_t *const factor = bytes(SMV_WEIGHTS, factors, channels);
    const int8_t *const offset = bytes(SMV_WEIGHTS, offsets, channels);
    for (int32_t i = 0; i < rows * columns; i++) {
        const int32_t row = i / columns, column = i % columns;
        const int8_t *const in =
            bytes(SMV_INPUT, x + row * pitches.x_row + column * pitches.x_column, channels);
        int8_t *const out =
            bytes(SMV_OUTPUT, y + row * pitches.y_row + column * pitches.y_column, channels);
        for (int32_t c = 0; c < channels; c++) {
            const int32_t product = (in[c] - products.zero0) * (factor[c] - products.zero1);
            const int32_t scaled =
                penstock_multiply(product, products.out_multiplier, products.out_shift);
            const int32_t left =
                penstock_clamp(scaled + products.out_zero, products.least, products.most);
            const int32_t sum = sum_of(left - terms.zero0, offset[c] - terms.zero1);
            out[c] = requantised(sum);
        }
    }
}

void smv_lookup(int32_t x, int32_t table, int32_t y, int32_t rows, int32_t columns,
                int32_t channels) {
    const int8_t *const entries = bytes(SMV_WEIGHTS, table, 256);
    for (int32_t i = 0; i < rows * columns; i++) {
        const int32_t row = i / columns, column = i % columns;
        const int8_t *const in =
            bytes(SMV_INPUT, x + row * pitches.x_row + column * pitches.x_column, channels);
        int8_t *const out =
            bytes(SMV_OUTPUT, y + row * pitches.y_row + column * pitches.y_column, channels);
        for (int32_t c = 0; c < channels; c++) {
            out[c] = entries[in[c] + 128];
        }
    }
}

/* 1 / (1 + fraction), with 31 fractional bits: Newton's method. */
static int32_t reciprocal(int32_t fraction) {
    const int32_t half = (int32_t)(((int64_t)fraction + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + penstock_high_multiply(half, -1010580540);
    for (int k = 0; k < 3; k++) {
        const int32_t rest = (INT32_C(1) << 29) - penstock_high_multiply(half, x);
        x += penstock_high_multiply(x, rest) * 4;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

void smv_softmax(int32_t x, int32_t table, int32_t y, int32_t rows, int32_t columns,
                 int32_t channels) {
    for (int32_t i = 0; i < rows * columns; i++) {
        const int32_t row = i / columns, column = i % columns;
        const int8_t *const in =
            bytes(SMV_INPUT, x + row * pitches.x_row + column * pitches.x_column, channels);
        int8_t *const out =
            bytes(SMV_OUTPUT, y + row * pitches.y_row + column * pitches.y_column, channels);
        int32_t largest = INT8_MIN;
        for (int32_t c = 0; c < channels; c++) {
            largest = in[c] > largest ? in[c] : largest;
        }
        uint32_t sum = 0; /* 19 fractional bits; at least 1 */
        for (int32_t c = 0; c < channels; c++) {
            const int32_t power = word(SMV_WEIGHTS, table + 4 * (largest - in[c]));
            sum += (uint32_t)penstock_rounding_shift(power, 12);
        }
        int32_t headroom = 0;
        for (uint32_t top = sum; top < UINT32_C(0x80000000); top <<= 1) {
            headroom++;
        }
        const int32_t scale =
            reciprocal((int32_t)((sum << headroom) & UINT32_C(0x7fffffff)));
        for (int32_t c = 0; c < channels; c++) {
            const int32_t power = word(SMV_WEIGHTS, table + 4 * (largest - in[c]));
            const int32_t part = penstock_high_multiply(scale, power);
            const int32_t value = penstock_rounding_shift(part, 12 - headroom + 31 - 8);
            out[c] = (int8_t)penstock_clamp(value - 128, -128, 127);
        }
    }
}

void smv_matmul(int32_t a, int32_t b, int32_t y, int32_t rows, int32_t depth, int32_t columns,
                int32_t a_row, int32_t a_inner, int32_t b_inner, int32_t b_column) {
    for (int32_t i = 0; i < rows * columns; i++) {
        const int32_t row = i / columns, column = i % columns;
        int32_t sum = 0;
        for (int32_t k = 0; k < depth; k++) {
            const int32_t left = *bytes(SMV_INPUT, a + row * a_row + k * a_inner, 1);
            const int32_t right = *bytes(SMV_WEIGHTS, b + k * b_inner + column * b_column, 1);
            sum += (left - terms.zero0) * (right - terms.zero1);
        }
        *bytes(SMV_OUTPUT, y + row * pitches.y_column + column, 1) = requantised(sum);
    }
}
