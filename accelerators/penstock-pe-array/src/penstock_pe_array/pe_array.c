/* pe_array.c: C implementation of the driver; link the driver of the hardware in its place.
 * An access outside a buffer, and a stream for another array, abort the program. */
#include "pe_array.h"

#include <string.h>

#include "kernels/fixedpoint.h"
#include "pe_array_hardware.h"
#include "pe_array_registers.h"

static int8_t inputs[PE_ARRAY_INPUT_BYTES];
static int8_t weights[PE_ARRAY_WEIGHTS_BYTES];
static int32_t sums[PE_ARRAY_OUTPUT_BYTES / 4];

static int32_t registers[PE_REGISTERS];
static int32_t places[PE_REGISTERS]; /* 1 + the index of a base address, or 0 */
static void **base_addresses;

static int32_t word(const uint8_t *bytes) {
    uint32_t value = 0;
    for (int k = 3; k >= 0; k--) {
        value = value << 8 | bytes[k];
    }
    return (int32_t)value;
}

static uint8_t *address(int32_t number) {
    return (uint8_t *)base_addresses[places[number] - 1] + registers[number];
}

static void require(int is_right) {
    if (!is_right) {
        __builtin_trap();
    }
}

/* The elements of a buffer of `size` elements, from `at` on; traps unless `count` fit. */
static int8_t *part(int8_t *buffer, int32_t size, int32_t at, int32_t count) {
    require(at >= 0 && count >= 0 && at <= size - count);
    return buffer + at;
}

static int32_t *sum_at(int32_t at) {
    require(at >= 0 && at < PE_ARRAY_OUTPUT_BYTES / 4);
    return sums + at;
}

static void configure(void) {
    const int32_t expected[] = {
        PE_ARRAY_ROWS,         PE_ARRAY_COLUMNS,        PE_ARRAY_DATAFLOW,
        PE_ARRAY_BANKS,        PE_ARRAY_INPUT_BYTES,    PE_ARRAY_WEIGHTS_BYTES,
        PE_ARRAY_OUTPUT_BYTES,
    };
    const int found[] = {
        PE_ROWS,        PE_COLUMNS,       PE_DATAFLOW,     PE_BANKS,
        PE_INPUT_BYTES, PE_WEIGHTS_BYTES, PE_OUTPUT_BYTES,
    };
    for (size_t k = 0; k < sizeof found / sizeof found[0]; k++) {
        require(registers[found[k]] == expected[k]);
    }
}

static void load(void) {
    const int is_input = registers[PE_BUFFER] == 0;
    int8_t *const buffer = is_input ? inputs : weights;
    const int32_t size = is_input ? PE_ARRAY_INPUT_BYTES : PE_ARRAY_WEIGHTS_BYTES;
    const uint8_t *const from = address(PE_ADDRESS);
    const int32_t count = registers[PE_RUN_BYTES];
    for (int32_t run = 0; run < registers[PE_RUNS]; run++) {
        const int32_t at = registers[PE_LOCAL] + run * registers[PE_LOCAL_PITCH];
        memcpy(part(buffer, size, at, count), from + run * registers[PE_PITCH], (size_t)count);
    }
}

static void store(void) {
    uint8_t *const to = address(PE_ADDRESS);
    for (int32_t run = 0; run < registers[PE_RUNS]; run++) {
        const int32_t at = registers[PE_LOCAL] + run * registers[PE_LOCAL_PITCH];
        for (int32_t k = 0; k < registers[PE_RUN_BYTES]; k++) {
            to[run * registers[PE_PITCH] + k] = (uint8_t)(*sum_at(at + k) & 0xff);
        }
    }
}

/* The offset of the first channel of the input pixel that a tap of an output pixel reads, or -1 if
 * it is padding. */
static int32_t pixel(int32_t row, int32_t column, int32_t tap) {
    const int32_t tap_h = tap / registers[PE_KERNEL_W], tap_w = tap % registers[PE_KERNEL_W];
    const int32_t r = row * registers[PE_STRIDE_H] + tap_h * registers[PE_DILATION_H] -
                      registers[PE_PAD_TOP];
    const int32_t c = column * registers[PE_STRIDE_W] + tap_w * registers[PE_DILATION_W] -
                      registers[PE_PAD_LEFT];
    if (r < 0 || r >= registers[PE_IN_H] || c < 0 || c >= registers[PE_IN_W]) {
        return -1;
    }
    return registers[PE_X] + r * registers[PE_X_ROW] + c * registers[PE_X_COLUMN];
}

static int32_t requantised(int32_t sum, int32_t output) {
    const uint8_t *const own = address(PE_PARAMETERS) + 12 * output;
    const int32_t scaled = penstock_multiply(sum + word(own), word(own + 4), word(own + 8));
    return penstock_clamp(scaled + registers[PE_OUT_ZERO], registers[PE_LEAST], registers[PE_MOST]);
}

/* The sum of products of output channel o of a pixel. */
static int32_t convolved(int32_t row, int32_t column, int32_t o) {
    const int32_t depth = registers[PE_DEPTH], zero = registers[PE_IN_ZERO];
    int32_t sum = 0;
    for (int32_t tap = 0; tap < registers[PE_KERNEL_H] * registers[PE_KERNEL_W]; tap++) {
        const int32_t at = pixel(row, column, tap);
        if (at < 0) {
            continue;
        }
        const int32_t from =
            registers[PE_W] + o * registers[PE_W_OUTPUT] + tap * registers[PE_W_TAP];
        const int8_t *const x = part(inputs, PE_ARRAY_INPUT_BYTES, at, depth);
        const int8_t *const w = part(weights, PE_ARRAY_WEIGHTS_BYTES, from, depth);
        for (int32_t c = 0; c < depth; c++) {
            sum += (x[c] - zero) * w[c];
        }
    }
    return sum;
}

/* The same of a depthwise convolution. */
static int32_t convolved_channel(int32_t row, int32_t column, int32_t o) {
    const int32_t channel = (registers[PE_SKIPPED] + o) / registers[PE_PER_CHANNEL];
    int32_t sum = 0;
    for (int32_t tap = 0; tap < registers[PE_KERNEL_H] * registers[PE_KERNEL_W]; tap++) {
        const int32_t at = pixel(row, column, tap);
        if (at >= 0) {
            const int32_t from = registers[PE_W] + tap * registers[PE_W_TAP] + o;
            sum += (*part(inputs, PE_ARRAY_INPUT_BYTES, at + channel, 1) - registers[PE_IN_ZERO]) *
                   *part(weights, PE_ARRAY_WEIGHTS_BYTES, from, 1);
        }
    }
    return sum;
}

/* The maximum or the mean of channel o of a window. */
static int32_t pooled(int32_t row, int32_t column, int32_t o) {
    int32_t largest = INT8_MIN, sum = 0, count = 0;
    for (int32_t tap = 0; tap < registers[PE_KERNEL_H] * registers[PE_KERNEL_W]; tap++) {
        const int32_t at = pixel(row, column, tap);
        if (at >= 0) {
            const int32_t element = *part(inputs, PE_ARRAY_INPUT_BYTES, at + o, 1);
            largest = element > largest ? element : largest;
            sum += element;
            count++;
        }
    }
    if (registers[PE_IS_MEAN] != 0) {
        largest = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
    }
    return penstock_clamp(largest, registers[PE_LEAST], registers[PE_MOST]);
}

static int32_t added(int32_t row, int32_t column, int32_t o) {
    const int32_t x =
        registers[PE_X] + row * registers[PE_X_ROW] + column * registers[PE_X_COLUMN] + o;
    const int32_t w =
        registers[PE_W] + row * registers[PE_W_ROW] + column * registers[PE_W_TAP] + o;
    const int32_t left = *part(inputs, PE_ARRAY_INPUT_BYTES, x, 1) - registers[PE_ZERO0];
    const int32_t right = *part(weights, PE_ARRAY_WEIGHTS_BYTES, w, 1) - registers[PE_ZERO1];
    const int32_t sum =
        penstock_multiply(left * (1 << 20), registers[PE_MULTIPLIER0], registers[PE_SHIFT0]) +
        penstock_multiply(right * (1 << 20), registers[PE_MULTIPLIER1], registers[PE_SHIFT1]);
    const int32_t scaled =
        penstock_multiply(sum, registers[PE_OUT_MULTIPLIER], registers[PE_OUT_SHIFT]);
    return penstock_clamp(scaled + registers[PE_OUT_ZERO], registers[PE_LEAST], registers[PE_MOST]);
}

static int32_t computed(int32_t operation, int32_t row, int32_t column, int32_t o, int32_t before) {
    if (operation == PE_DO_CONVOLVE) {
        const int32_t sum =
            convolved(row, column, o) + (registers[PE_ACCUMULATE] != 0 ? before : 0);
        return registers[PE_FINISH] != 0 ? requantised(sum, o) : sum;
    }
    if (operation == PE_DO_POOL) {
        return pooled(row, column, o);
    }
    if (operation == PE_DO_ADD) {
        return added(row, column, o);
    }
    require(operation == PE_DO_CONVOLVE_CHANNELS);
    return requantised(convolved_channel(row, column, o), o);
}

static void compute(int32_t operation) {
    for (int32_t row = 0; row < registers[PE_OUT_H]; row++) {
        for (int32_t column = 0; column < registers[PE_OUT_W]; column++) {
            const int32_t at = registers[PE_Y] + row * registers[PE_Y_ROW] +
                               column * registers[PE_Y_COLUMN];
            for (int32_t o = 0; o < registers[PE_OUT_C]; o++) {
                int32_t *const sum = sum_at(at + o);
                *sum = computed(operation, row, column, o, *sum);
            }
        }
    }
}

void pe_array_submit(const void *stream, int32_t bytes, void *bases[]) {
    const uint8_t *words = stream;
    base_addresses = bases;
    memset(registers, 0, sizeof registers);
    for (int32_t k = 0; k < bytes; k += 8) {
        const int32_t head = word(words + k), number = head & 0xff;
        require(number < PE_REGISTERS);
        registers[number] = word(words + k + 4);
        places[number] = head >> 8 & 0xff;
        if (number == PE_OPERATION) {
            const int32_t operation = registers[PE_OPERATION];
            if (operation == PE_DO_CONFIGURE) {
                configure();
            } else if (operation == PE_DO_LOAD) {
                load();
            } else if (operation == PE_DO_STORE) {
                store();
            } else {
                compute(operation);
            }
        }
    }
}
