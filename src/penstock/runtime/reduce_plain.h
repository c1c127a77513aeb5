/* reduce_plain: largest or smallest element, sum or product along axes.
 *   x  (N, in_h, in_w, in_c)  float, or integers of `bytes` bytes, modulo 2^(8 bytes)
 *   y  the same, extent 1 along reduced axes  as x
 * Computes rows [lower, upper) of y, in order of indices; float results are rounded each time. */
#ifndef PENSTOCK_REDUCE_PLAIN_H
#define PENSTOCK_REDUCE_PLAIN_H

#include "integers.h"
#include "real.h"
#include "reduction.h"

struct reduce_plain {
    PENSTOCK_REDUCTION_MEMBERS;
    int32_t bytes, is_real, is_signed;
    int32_t function; /* 0: maximum, 1: minimum, 2: product, 3: sum */
};

/* NaN does not count, unless it is first. */
static inline float reduce_plain_real(const struct reduce_plain *p, const penstock_source *x,
                                      int32_t n, int32_t h, int32_t w, int32_t c) {
    float found = 0.0f;
    int32_t is_first = 1;
    PENSTOCK_FOR_EACH_REDUCED(
        const float element = penstock_get_f32(in, at);
        if (is_first) {
            found = element;
        } else if (p->function == 2) {
            found *= element;
        } else if (p->function == 3) {
            found += element;
        } else if (p->function == 0 ? element > found : element < found) {
            found = element;
        }
        is_first = 0)
    return found;
}

static inline int64_t reduce_plain_integer(const struct reduce_plain *p, const penstock_source *x,
                                           int32_t n, int32_t h, int32_t w, int32_t c) {
    int64_t found = 0;
    int32_t is_first = 1;
    PENSTOCK_FOR_EACH_REDUCED(
        const int64_t element = penstock_get_integer(in, at, p->bytes, p->is_signed);
        if (is_first) {
            found = element;
        } else if (p->function == 2) {
            found = (int64_t)((uint64_t)found * (uint64_t)element);
        } else if (p->function == 3) {
            found = (int64_t)((uint64_t)found + (uint64_t)element);
        } else if (p->function == 0 ? element > found : element < found) {
            found = element;
        }
        is_first = 0)
    return found;
}

PENSTOCK_KERNEL void reduce_plain(const struct reduce_plain *p, const penstock_source *x,
                                  const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_REDUCTION(
        if (p->is_real) {
            penstock_put_f32(out, 0, reduce_plain_real(p, x, n, h, w, c));
        } else {
            penstock_put_integer(out, 0, p->bytes, reduce_plain_integer(p, x, n, h, w, c));
        }
        out += p->bytes)
}

#endif
