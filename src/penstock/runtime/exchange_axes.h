/* exchange_axes: exchanges the rows and columns of an image.
 *   x  rows x columns pixels of pixel_bytes
 *   y  columns x rows pixels; y may be at the address of x
 * In place, the pixels move along the cycles of a permutation, each cycle from its least index on;
 * an index is the least one of its cycle if following the cycle from it returns to it without
 * meeting a lower one.  Computes all rows of y. */
#ifndef PENSTOCK_EXCHANGE_AXES_H
#define PENSTOCK_EXCHANGE_AXES_H

#include "view.h"

struct exchange_axes {
    int32_t rows, columns, pixel_bytes;
};

/* Index in x of the pixel that has index k in y. */
static inline int32_t penstock_exchanged(const struct exchange_axes *p, int32_t k) {
    const int32_t column = k / p->rows;
    return (k - column * p->rows) * p->columns + column;
}

static inline void penstock_swap(int8_t *a, int8_t *b, int32_t bytes) {
    int8_t kept[8];
    for (; bytes >= 8; bytes -= 8) {
        memcpy(kept, a, 8);
        memcpy(a, b, 8);
        memcpy(b, kept, 8);
        a += 8;
        b += 8;
    }
    for (int32_t k = 0; k < bytes; k++) {
        kept[0] = a[k];
        a[k] = b[k];
        b[k] = kept[0];
    }
}

PENSTOCK_KERNEL void exchange_axes(const struct exchange_axes *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    const int32_t pixels = p->rows * p->columns;
    const int32_t size = p->pixel_bytes;
    (void)lower;
    (void)upper;
    if (x->base != y->base) {
        int8_t *out = y->base;
        for (int32_t column = 0; column < p->columns; column++) {
            for (int32_t row = 0; row < p->rows; row++) {
                memcpy(out, x->base + (row * p->columns + column) * size, (size_t)size);
                out += size;
            }
        }
        return;
    }
    for (int32_t first = 0; first < pixels; first++) {
        int32_t k = penstock_exchanged(p, first);
        while (k > first) {
            k = penstock_exchanged(p, k);
        }
        if (k < first) {
            continue;
        }
        int32_t target = first;
        for (k = penstock_exchanged(p, first); k != first; k = penstock_exchanged(p, k)) {
            penstock_swap(y->base + target * size, y->base + k * size, size);
            target = k;
        }
    }
}

#endif
