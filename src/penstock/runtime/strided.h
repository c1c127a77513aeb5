/* strided: elements at constant steps along each axis, and a fill byte outside the input.
 *   x  (in_n,  in_h,  in_w,  in_c)   elements of element_bytes
 *   y  (N,     out_h, out_w, out_c)  y[o] = x[start + step * o] along every axis
 * Implements padding, slices, reversal and broadcasting.  Computes rows [lower, upper) of y. */
#ifndef PENSTOCK_STRIDED_H
#define PENSTOCK_STRIDED_H

#include "copy.h"
#include "loop.h"

struct strided {
    int32_t element_bytes, fill;
    int32_t in_n, start_n, step_n;
    int32_t in_h, out_h, start_h, step_h;
    int32_t in_w, out_w, start_w, step_w;
    int32_t in_c, out_c, start_c, step_c;
};

/* Copies the channels of one pixel from the input pixel `in`, one by one. */
static inline void strided_channels(const struct strided *p, const int8_t *in, int8_t *out) {
    const int32_t bytes = p->element_bytes, in_c = p->in_c, out_c = p->out_c, step = p->step_c;
    int32_t source = p->start_c;
    for (int32_t c = 0; c < out_c; c++, source += step, out += bytes) {
        if (source < 0 || source >= in_c) {
            memset(out, p->fill, (size_t)bytes);
        } else {
            penstock_copy_element(out, in + source * bytes, bytes);
        }
    }
}

PENSTOCK_KERNEL void strided(const struct strided *p, const penstock_source *x,
                             const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t bytes = p->element_bytes, step_w = p->step_w, in_w = p->in_w;
    const int32_t in_pixel = p->in_c * bytes, pixel = p->out_c * bytes, width = p->out_w;
    const int32_t step = step_w * in_pixel;
    /* If channels follow each other, a pixel is one run between `first` and `end`. */
    const int32_t from = p->start_c * bytes;
    const int32_t first = penstock_min(penstock_max(-from, 0), pixel);
    const int32_t end = penstock_max(penstock_min(in_pixel - from, pixel), first);
    const int32_t last_w = p->start_w + step_w * (width - 1), is_run = p->step_c == 1;
    const int32_t is_inside = is_run && end - first == pixel && p->start_w >= 0 && last_w >= 0 &&
                              p->start_w < in_w && last_w < in_w; /* nothing is filled */
    for (int32_t row = lower; row < upper; row++) {
        const int32_t n = p->start_n + p->step_n * (row / p->out_h);
        const int32_t h = p->start_h + p->step_h * (row % p->out_h);
        int8_t *out = penstock_write_row(y, row);
        if (n < 0 || n >= p->in_n || h < 0 || h >= p->in_h) {
            memset(out, p->fill, (size_t)(width * pixel));
            continue;
        }
        int32_t w = p->start_w;
        const int8_t *in = penstock_read_row(x, n * p->in_h + h) + w * in_pixel;
        int8_t *last = out + width * pixel;
        in += from;
        if (is_inside) {
            for (; out < last; out += pixel, in += step) {
                penstock_copy(out, in, pixel);
            }
        }
        for (; out < last; out += pixel, in += step, w += step_w) {
            if (w < 0 || w >= in_w) {
                memset(out, p->fill, (size_t)pixel);
            } else if (is_run) {
                if (first > 0) {
                    memset(out, p->fill, (size_t)first);
                }
                penstock_copy(out + first, in + first, end - first);
                if (end < pixel) {
                    memset(out + end, p->fill, (size_t)(pixel - end));
                }
            } else {
                strided_channels(p, in - from, out);
            }
        }
    }
}

#endif
