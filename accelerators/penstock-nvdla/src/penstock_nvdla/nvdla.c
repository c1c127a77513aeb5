/* nvdla.c: C implementation of the generated streams; link the driver of the hardware in its place.
 * Registers: docs/nvdla.md.  Rows that the hardware keeps in the convolution buffer are read from
 * memory again. */
#include "nvdla.h"

enum {
    CDMA_START = 0x03010, CDMA_SIZE = 0x0301c, CDMA_CHANNELS = 0x03020, CDMA_SOURCE = 0x03034,
    CDMA_LINES = 0x03040, CDMA_SURFACES = 0x03048, CDMA_WEIGHTS = 0x0307c, CDMA_STRIDE = 0x030b0,
    CDMA_PADDING = 0x030b4, CDMA_PAD_VALUE = 0x030b8, CSC_SIZE = 0x04014, CSC_TAPS = 0x0402c, CSC_DILATION = 0x04050,
    SDP_WIDTH = 0x0903c, SDP_HEIGHT = 0x09040, SDP_CHANNELS = 0x09044, SDP_TARGET = 0x09048,
    SDP_LINES = 0x09050, SDP_SURFACES = 0x09054,
    SDP_RDMA_START = 0x08008, SDP_SOURCE = 0x08018, SDP_SOURCE_LINES = 0x08020,
    SDP_SOURCE_SURFACES = 0x08024, SDP_FLYING = 0x08070,
    Y_MODE = 0x09080, Y_OFFSET = 0x0908c, Y_SCALE = 0x09090, Y_SHIFT = 0x09094, Y_FACTOR = 0x0909c,
    Y_PRODUCT = 0x09098, Y_RIGHT = 0x090ac, Y_SECOND = 0x0805c, Y_LINES = 0x08064, Y_SURFACES = 0x08068, CVT_OFFSET = 0x090c0, CVT_SCALE = 0x090c4, CVT_SHIFT = 0x090c8,
    PDP_RDMA_START = 0x0a008, PDP_WIDTH = 0x0b00c, PDP_HEIGHT = 0x0b010, PDP_OUT_WIDTH = 0x0b018,
    PDP_OUT_HEIGHT = 0x0b01c, PDP_CHANNELS = 0x0b020, PDP_MODE = 0x0b024, PDP_TAPS = 0x0b034,
    PDP_FACTOR_W = 0x0b038, PDP_FACTOR_H = 0x0b03c, PDP_PADDING = 0x0b040, PDP_SOURCE = 0x0a01c,
    PDP_SOURCE_LINES = 0x0a024, PDP_SOURCE_SURFACES = 0x0a028, PDP_TARGET = 0x0b070,
    PDP_LINES = 0x0b078, PDP_SURFACES = 0x0b07c
};
/* Registers of SDP's units X1 and X2. */
static const struct {
    uint32_t mode, addend, factor, number, operands, place, lines, surfaces;
} unit_registers[] = {{0x09058, 0x0905c, 0x09064, 0x09068, 0x08028, 0x0802c, 0x08034, 0x08038},
                      {0x0906c, 0x09070, 0x09078, 0x0907c, 0x08040, 0x08044, 0x0804c, 0x08050}};
enum { UNREAD = 1, IN_MEMORY = 1, BYPASS = 1, SKIP_ADDITION = 2, SKIP_MULTIPLICATION = 16, SKIP_CLAMP = 64, PER_ELEMENT = 16 };

/* Set in a base that is in the memory at the second port; ignored here because there is one address space. */
#define IN_CVSRAM 0x80000000u

/* For each configuration: input channels and kernels processed per cycle, and channels per pack. */
static const struct {
    int32_t channels, kernels, pack;
} atoms[] = {{8, 8, 8}, {32, 8, 8}, {64, 32, 32}};

/* The running stream; writes before `at` have been executed. */
static struct {
    const uint8_t *places, *writes;
    int32_t place_count, at, configuration;
    void **bases;
} run;

static uint32_t word(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

/* Index of the last write of a register. */
static int32_t write_of(uint32_t address) {
    for (int32_t k = run.at; k >= 0; k--) {
        if (word(run.writes + 8 * k) == address) {
            return k;
        }
    }
    __builtin_trap();
}

static uint32_t value(uint32_t address) {
    return word(run.writes + 8 * write_of(address) + 4);
}

/* The two 16-bit fields of a register. */
static int32_t lower(uint32_t address) {
    return (int32_t)(value(address) & 0xffff);
}

static int32_t upper(uint32_t address) {
    return (int32_t)(value(address) >> 16);
}

/* The address that a register holds, after relocation. */
static int8_t *place(uint32_t address) {
    const int32_t write = write_of(address);
    for (int32_t k = 0; k < run.place_count; k++) {
        if (word(run.places + 8 * k) == (uint32_t)write) {
            return (int8_t *)run.bases[word(run.places + 8 * k + 4) & ~IN_CVSRAM] + value(address);
        }
    }
    __builtin_trap();
}

/* The shift in a register: the bits from the ninth on. */
static int32_t upper_byte(uint32_t address) {
    return (int32_t)(value(address) >> 8 & 63);
}

typedef struct {
    int8_t *base;
    int32_t lines, surfaces;
} surface;

/* The surface whose address and strides are in these registers. */
static surface surface_of(uint32_t base, uint32_t lines, uint32_t surfaces) {
    const surface found = {place(base), (int32_t)value(lines), (int32_t)value(surfaces)};
    return found;
}

static int8_t *element(const surface *s, int32_t row, int32_t column, int32_t channel) {
    const int32_t pack = atoms[run.configuration].pack;
    return s->base + channel / pack * s->surfaces + row * s->lines + column * pack + channel % pack;
}

/* A window over an image. */
static struct {
    surface x;
    int32_t width, height, channels, taps_w, taps_h, stride_w, stride_h, dilation_w, dilation_h;
    int32_t left, top, pad_value;
} w;

/* The input element at tap (k, l) of output (row, column), or the padding value. */
static int32_t under(int32_t row, int32_t column, int32_t k, int32_t l, int32_t channel) {
    const int32_t y = row * w.stride_h - w.top + k * w.dilation_h;
    const int32_t x = column * w.stride_w - w.left + l * w.dilation_w;
    const int inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
    return inside ? *element(&w.x, y, x, channel) : w.pad_value;
}

/* SDP: unit X1 or X2. */
typedef struct {
    int32_t mode, left, right, per_element, addend_in_memory, addend, factor_in_memory, factor;
    const int8_t *operands;
    surface second;
} unit;

/* SDP: unit Y, which scales and adds an element of a second tensor or an
 * operand of the channel. */
typedef struct {
    int32_t bypass, by_channel, factor, right, offset, scale, shift;
    const int8_t *operands;
    surface second;
} weighting;

static struct {
    unit units[2];
    weighting y;
    int32_t offset, scale, shift;
    surface target;
} sdp;

static void load_y(void) {
    weighting *y = &sdp.y;
    y->bypass = (int32_t)value(Y_MODE) & BYPASS;
    if (y->bypass) {
        return;
    }
    y->factor = (int32_t)value(Y_FACTOR);
    y->right = (int32_t)value(Y_RIGHT);
    y->offset = (int32_t)value(Y_OFFSET);
    y->scale = (int16_t)(uint16_t)value(Y_SCALE);
    y->shift = (int32_t)value(Y_SHIFT);
    y->by_channel = (int32_t)value(Y_PRODUCT) & IN_MEMORY;
    y->operands = place(Y_SECOND);
    y->second = surface_of(Y_SECOND, Y_LINES, Y_SURFACES);
}

static void load_units(void) {
    for (int k = 0; k < 2; k++) {
        unit *u = &sdp.units[k];
        u->mode = (int32_t)value(unit_registers[k].mode);
        if ((u->mode & BYPASS) != 0) {
            continue;
        }
        u->left = upper_byte(unit_registers[k].addend);
        u->right = upper_byte(unit_registers[k].factor);
        u->addend_in_memory = (int32_t)value(unit_registers[k].addend) & IN_MEMORY;
        u->addend = (int16_t)(uint16_t)value(unit_registers[k].addend + 4);
        u->factor_in_memory = (int32_t)value(unit_registers[k].factor) & IN_MEMORY;
        u->factor = (int16_t)(uint16_t)value(unit_registers[k].number);
        if ((value(unit_registers[k].operands) & UNREAD) != 0) {
            continue;
        }
        u->per_element = (int32_t)value(unit_registers[k].operands) & PER_ELEMENT;
        u->operands = place(unit_registers[k].place);
        if (u->per_element) {
            u->second = surface_of(unit_registers[k].place, unit_registers[k].lines,
                                   unit_registers[k].surfaces);
        }
    }
    load_y();
    sdp.offset = (int32_t)value(CVT_OFFSET);
    sdp.scale = (int16_t)(uint16_t)value(CVT_SCALE);
    sdp.shift = (int32_t)value(CVT_SHIFT);
    sdp.target = surface_of(SDP_TARGET, SDP_LINES, SDP_SURFACES);
}

static int64_t between(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Shifts right, rounds ties away from zero, saturates to 32 bits. */
static int64_t shifted(int64_t x, int32_t right) {
    const int64_t half = right > 0 ? (int64_t)1 << (right - 1) : 0;
    const int64_t found = x < 0 ? -((half - x) >> right) : (x + half) >> right;
    return between(found, INT32_MIN, INT32_MAX);
}

static int32_t operand(const int8_t *operands, int32_t channel, int32_t k) {
    const uint8_t *at = (const uint8_t *)operands + 4 * channel + 2 * k;
    return (int16_t)(uint16_t)(at[0] | at[1] << 8);
}

/* Passes a sum or an element through both units and the converter, and writes the result. */
static void write_element(int32_t row, int32_t column, int32_t channel, int64_t x) {
    for (int k = 0; k < 2; k++) {
        const unit *u = &sdp.units[k];
        if ((u->mode & BYPASS) != 0) {
            continue;
        }
        if ((u->mode & SKIP_ADDITION) == 0) {
            const int32_t addend = !u->addend_in_memory ? u->addend
                                   : u->per_element     ? *element(&u->second, row, column, channel)
                                                        : operand(u->operands, channel, 0);
            x += addend * ((int64_t)1 << u->left);
        }
        if ((u->mode & SKIP_MULTIPLICATION) == 0) {
            x *= u->factor_in_memory ? operand(u->operands, channel, 1) : u->factor;
        }
        x = shifted(x, u->right);
        if ((u->mode & SKIP_CLAMP) == 0 && x < 0) {
            x = 0;
        }
    }
    if (!sdp.y.bypass) {
        const weighting *y = &sdp.y;
        const int64_t addend = y->by_channel ? operand(y->operands, channel, 0)
                                             : *element(&y->second, row, column, channel);
        const int64_t factor = y->by_channel ? operand(y->operands, channel, 1) : y->factor;
        x = shifted(x * factor, y->right) + shifted((addend - y->offset) * y->scale, y->shift);
        x = between(x, INT32_MIN, INT32_MAX);
    }
    x = between(shifted((x - sdp.offset) * sdp.scale, sdp.shift), -128, 127);
    *element(&sdp.target, row, column, channel) = (int8_t)x;
}

/* Runs a layer of SDP alone. */
static void sdp_layer(void) {
    const surface source = surface_of(SDP_SOURCE, SDP_SOURCE_LINES, SDP_SOURCE_SURFACES);
    const int32_t channels = (int32_t)value(SDP_CHANNELS) + 1;
    load_units();
    for (int32_t row = 0; row <= (int32_t)value(SDP_HEIGHT); row++) {
        for (int32_t column = 0; column <= (int32_t)value(SDP_WIDTH); column++) {
            for (int32_t c = 0; c < channels || c % atoms[run.configuration].pack != 0; c++) {
                write_element(row, column, c, *element(&source, row, column, c));
            }
        }
    }
}

/* Runs a pooling layer of PDP. */
static void pdp_layer(void) {
    const surface source = surface_of(PDP_SOURCE, PDP_SOURCE_LINES, PDP_SOURCE_SURFACES);
    const surface target = surface_of(PDP_TARGET, PDP_LINES, PDP_SURFACES);
    const int32_t width = (int32_t)value(PDP_WIDTH) + 1;
    const int32_t height = (int32_t)value(PDP_HEIGHT) + 1;
    const int32_t channels = (int32_t)value(PDP_CHANNELS) + 1;
    const uint32_t taps = value(PDP_TAPS);
    const uint32_t padding = value(PDP_PADDING);
    const int32_t average = (value(PDP_MODE) & 3) == 0;
    for (int32_t row = 0; row <= (int32_t)value(PDP_OUT_HEIGHT); row++) {
        for (int32_t column = 0; column <= (int32_t)value(PDP_OUT_WIDTH); column++) {
            const int32_t top = row * (int32_t)((taps >> 20 & 15) + 1) - (int32_t)(padding >> 4 & 7);
            const int32_t left = column * (int32_t)((taps >> 16 & 15) + 1) - (int32_t)(padding & 7);
            for (int32_t c = 0; c < channels || c % atoms[run.configuration].pack != 0; c++) {
                int64_t sum = 0;
                int32_t largest = -128;
                for (int32_t y = top; y <= top + (int32_t)(taps >> 8 & 15); y++) {
                    for (int32_t x = left; x <= left + (int32_t)(taps & 15); x++) {
                        if (y >= 0 && y < height && x >= 0 && x < width) {
                            const int32_t found = *element(&source, y, x, c);
                            sum += found;
                            largest = found > largest ? found : largest;
                        }
                    }
                }
                if (average) {
                    sum = shifted(sum * (int64_t)value(PDP_FACTOR_W), 16);
                    largest = (int32_t)shifted(sum * (int64_t)value(PDP_FACTOR_H), 16);
                }
                *element(&target, row, column, c) = (int8_t)largest;
            }
        }
    }
}

/* Offset of the weight of kernel o for tap `tap` and channel c. */
static int32_t weight_at(int32_t kernels, int32_t taps, int32_t o, int32_t tap, int32_t c) {
    const int32_t group = atoms[run.configuration].kernels;
    const int32_t block = atoms[run.configuration].channels;
    const int32_t first = o - o % group;
    const int32_t before = c - c % block;
    const int32_t together = kernels - first < group ? kernels - first : group;
    const int32_t wide = w.channels - before < block ? w.channels - before : block;
    return first * taps * w.channels + together * taps * before + tap * together * wide +
           o % group * wide + c % block;
}

static int32_t convolved(const int8_t *weights, int32_t kernels, int32_t row, int32_t column,
                         int32_t o) {
    int32_t sum = 0;
    for (int32_t k = 0; k < w.taps_h; k++) {
        for (int32_t l = 0; l < w.taps_w; l++) {
            for (int32_t c = 0; c < w.channels; c++) {
                const int32_t x = under(row, column, k, l, c);
                sum += x * weights[weight_at(kernels, w.taps_h * w.taps_w, o, k * w.taps_w + l, c)];
            }
        }
    }
    return sum;
}

/* Runs a convolution layer. */
static void convolution_layer(void) {
    w.width = lower(CDMA_SIZE) + 1;
    w.height = upper(CDMA_SIZE) + 1;
    w.taps_w = lower(CSC_TAPS) + 1;
    w.taps_h = upper(CSC_TAPS) + 1;
    w.stride_w = lower(CDMA_STRIDE) + 1;
    w.stride_h = upper(CDMA_STRIDE) + 1;
    w.dilation_w = lower(CSC_DILATION) + 1;
    w.dilation_h = upper(CSC_DILATION) + 1;
    w.x = surface_of(CDMA_SOURCE, CDMA_LINES, CDMA_SURFACES);
    w.channels = (int32_t)value(CDMA_CHANNELS) + 1;
    const int32_t kept = upper(CSC_SIZE) + 1 - w.height; /* rows still in the convolution buffer */
    w.height += kept;
    w.x.base -= kept * w.x.lines;
    w.left = lower(CDMA_PADDING) & 31;
    w.top = upper(CDMA_PADDING) & 31;
    w.pad_value = (int8_t)(uint8_t)value(CDMA_PAD_VALUE);
    const int8_t *weights = place(CDMA_WEIGHTS);
    const int32_t outputs = (int32_t)value(SDP_CHANNELS) + 1;
    load_units();
    for (int32_t row = 0; row <= (int32_t)value(SDP_HEIGHT); row++) {
        for (int32_t column = 0; column <= (int32_t)value(SDP_WIDTH); column++) {
            for (int32_t o = 0; o < outputs || o % atoms[run.configuration].pack != 0; o++) {
                write_element(row, column, o,
                              o < outputs ? convolved(weights, outputs, row, column, o) : 0);
            }
        }
    }
}

void nvdla_submit(const void *stream, int32_t bytes, void *bases[]) {
    const uint8_t *words = stream;
    run.configuration = (int32_t)(word(words) & 0xff); /* above: the size of a bank */
    run.place_count = (int32_t)word(words + 4);
    run.places = words + 8;
    run.writes = run.places + 8 * run.place_count;
    run.bases = bases;
    const int32_t writes = (int32_t)(words + bytes - run.writes) / 8;
    for (run.at = 0; run.at < writes; run.at++) {
        const uint32_t address = word(run.writes + 8 * run.at);
        if (address == CDMA_START) {
            convolution_layer();
        } else if (address == PDP_RDMA_START) {
            pdp_layer();
        } else if (address == SDP_RDMA_START && (value(SDP_FLYING) & 1) == 0) {
            sdp_layer(); /* beside a convolution, SDP_RDMA only reads operands */
        }
    }
}

/* nvdla_submit has already run all layers. */
void nvdla_wait(void) {
}
