/* svdf_time_s16: weighted sums over the time steps of an SVDF with int16 states (svdf_time.h). */
#ifndef PENSTOCK_SVDF_TIME_S16_H
#define PENSTOCK_SVDF_TIME_S16_H

#include "svdf_time.h"
#include "wide.h"

struct svdf_time_s16 {
    PENSTOCK_SVDF_TIME_MEMBERS;
    const int16_t *weights;
    const int32_t *bias;
};

PENSTOCK_KERNEL void svdf_time_s16(const struct svdf_time_s16 *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_SVDF_TIME(int16_t, penstock_get_s16)
}

#endif
