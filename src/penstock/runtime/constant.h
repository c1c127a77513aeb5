/* constant: a tensor that is known at compile time.  Whole tensors only. */
#ifndef PENSTOCK_CONSTANT_H
#define PENSTOCK_CONSTANT_H

#include "view.h"

struct constant {
    int32_t bytes;
    const int8_t *data;
};

PENSTOCK_KERNEL void constant(const struct constant *p, const penstock_source *x,
                              const penstock_sink *y, int32_t lower, int32_t upper) {
    (void)x;
    (void)lower;
    (void)upper;
    memcpy(y->base, p->data, (size_t)p->bytes);
}

#endif
