/* add_s8_dsp: a function of two tensors, element by element, that is a weighted sum and a shift.
 *   a, b, y  int8, of one shape
 * Computes rows [lower, upper) of y; y may lie over a or b. */
#ifndef PENSTOCK_ADD_S8_DSP_H
#define PENSTOCK_ADD_S8_DSP_H

#include "dsp.h"
#include "fixedpoint.h"
#include "view.h"

struct add_s8_dsp {
    int32_t row_elements, left, right, offset, shift, least, most;
};

/* Output of a pair of inputs. */
static inline int32_t add_s8_dsp_output(const struct add_s8_dsp *p, int32_t a, int32_t b) {
    return penstock_saturate((a * p->left + b * p->right + p->offset) >> p->shift);
}

/* Byte k of a word, sign-extended. */
static inline int32_t add_s8_dsp_byte(uint32_t word, int32_t k) {
    return (int8_t)(uint8_t)(word >> 8 * k);
}

static void add_s8_dsp_row(const struct add_s8_dsp *p, const int8_t *a, const int8_t *b,
                           int8_t *out) {
    int32_t i = 0;
    for (; i + 4 <= p->row_elements; i += 4) {
        const uint32_t left = penstock_load_word(a + i);
        const uint32_t right = penstock_load_word(b + i);
        uint32_t y = 0;
        for (int32_t k = 0; k < 4; k++) {
            const int32_t output =
                add_s8_dsp_output(p, add_s8_dsp_byte(left, k), add_s8_dsp_byte(right, k));
            y |= (uint32_t)(uint8_t)(int8_t)output << 8 * k;
        }
        penstock_store_word(out + i, y);
    }
    for (; i < p->row_elements; i++) {
        out[i] = (int8_t)add_s8_dsp_output(p, a[i], b[i]);
    }
}

static void add_s8_dsp(const struct add_s8_dsp *p, const penstock_source *x, const penstock_sink *y,
                       int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        int8_t *out = penstock_write_row(y, row);
        add_s8_dsp_row(p, penstock_read_row(&x[0], row), penstock_read_row(&x[1], row), out);
        if (p->least > -128 || p->most < 127) {
            for (int32_t i = 0; i < p->row_elements; i++) {
                out[i] = (int8_t)penstock_clamp(out[i], p->least, p->most);
            }
        }
    }
}

#endif
