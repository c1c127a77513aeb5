/* svdf_time_s8: weighted sums over the time steps of an SVDF with int8 states (svdf_time.h). */
#ifndef PENSTOCK_SVDF_TIME_S8_H
#define PENSTOCK_SVDF_TIME_S8_H

#include "svdf_time.h"

struct svdf_time_s8 {
    PENSTOCK_SVDF_TIME_MEMBERS;
    const int8_t *weights;
    const int32_t *bias;
};

PENSTOCK_KERNEL void svdf_time_s8(const struct svdf_time_s8 *p, const penstock_source *x,
                                  const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_SVDF_TIME(int8_t, penstock_get_s8)
}

#endif
