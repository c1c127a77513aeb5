/* window.h: which taps of a sliding window lie inside of a tensor, and where its rows lie. */
#ifndef PENSTOCK_WINDOW_H
#define PENSTOCK_WINDOW_H

#include "view.h"

/* Rows of the tallest window of a model; the model's C says how many. */
#ifndef PENSTOCK_WINDOW_ROWS
#define PENSTOCK_WINDOW_ROWS 64
#endif

/* Numbers [lower, upper). */
typedef struct {
    int32_t lower, upper;
} penstock_span;

/* Taps that lie inside of [0, extent): tap k lies at first + k * dilation. */
static inline penstock_span penstock_taps_inside(int32_t first, int32_t taps, int32_t dilation,
                                                 int32_t extent) {
    const int32_t lower = first < 0 ? (dilation - 1 - first) / dilation : 0;
    const int32_t upper = first < extent ? (extent - 1 - first) / dilation + 1 : 0;
    const penstock_span inside = {lower, upper < taps ? upper : taps};
    return inside;
}

/* Rows first + k * dilation of a tensor, for the taps k that lie inside. */
static inline void penstock_window_rows(const penstock_source *x, int32_t first, int32_t dilation,
                                        penstock_span inside, const int8_t **rows) {
    for (int32_t k = inside.lower; k < inside.upper; k++) {
        rows[k] = penstock_read_row(x, first + k * dilation);
    }
}

#endif
