/* strided: elements at constant steps along each axis, and a fill byte outside the input.
 *   x  (in_n,  in_h,  in_w,  in_c)   elements of element_bytes
 *   y  (N,     out_h, out_w, out_c)  y[o] = x[start + step * o] along every axis
 * Implements padding, slices, reversal and broadcasting.  Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_STRIDED_H
#define PENSTOCK_STRIDED_H

#include "view.h"

struct strided {
    int32_t element_bytes, fill;
    int32_t in_n, start_n, step_n;
    int32_t in_h, out_h, start_h, step_h;
    int32_t in_w, out_w, start_w, step_w;
    int32_t in_c, out_c, start_c, step_c;
};

/* Fills elements [lower, upper) of a pixel. */
static inline void strided_fill(const struct strided *p, int8_t *out, int32_t lower,
                                int32_t upper) {
    if (lower < upper) {
        memset(out + lower * p->element_bytes, p->fill, (size_t)((upper - lower) * p->element_bytes));
    }
}

/* Copies the channels of one pixel from the input pixel `in`. */
static inline void strided_pixel(const struct strided *p, const int8_t *in, int8_t *out) {
    if (p->step_c == 1) { /* one run, with fill on both sides */
        const int32_t before = p->start_c < 0 ? -p->start_c : 0;
        const int32_t lower = before < p->out_c ? before : p->out_c;
        const int32_t end = p->in_c - p->start_c;
        const int32_t upper = end < lower ? lower : (end < p->out_c ? end : p->out_c);
        strided_fill(p, out, 0, lower);
        if (lower < upper) {
            memcpy(out + lower * p->element_bytes, in + (p->start_c + lower) * p->element_bytes,
                   (size_t)((upper - lower) * p->element_bytes));
        }
        strided_fill(p, out, upper, p->out_c);
        return;
    }
    for (int32_t c = 0; c < p->out_c; c++) {
        const int32_t source = p->start_c + p->step_c * c;
        if (source < 0 || source >= p->in_c) {
            strided_fill(p, out, c, c + 1);
        } else {
            memcpy(out + c * p->element_bytes, in + source * p->element_bytes,
                   (size_t)p->element_bytes);
        }
    }
}

PENSTOCK_KERNEL void strided(const struct strided *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = p->start_n + p->step_n * (row / p->out_h);
        const int32_t h = p->start_h + p->step_h * (row % p->out_h);
        int8_t *out = penstock_write_row(y, row);
        if (n < 0 || n >= p->in_n || h < 0 || h >= p->in_h) {
            strided_fill(p, out, 0, p->out_w * p->out_c);
            continue;
        }
        const int8_t *in = penstock_read_row(x, n * p->in_h + h);
        for (int32_t column = 0; column < p->out_w; column++) {
            const int32_t w = p->start_w + p->step_w * column;
            if (w < 0 || w >= p->in_w) {
                strided_fill(p, out, 0, p->out_c);
            } else {
                strided_pixel(p, in + w * p->in_c * p->element_bytes, out);
            }
            out += p->out_c * p->element_bytes;
        }
    }
}

#endif
