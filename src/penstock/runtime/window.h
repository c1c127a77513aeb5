/* window.h: the taps of a sliding window inside a tensor, and the addresses of its rows. */
#ifndef PENSTOCK_WINDOW_H
#define PENSTOCK_WINDOW_H

#include "view.h"

/* Largest number of window rows in the model; the generated C defines it. */
#ifndef PENSTOCK_WINDOW_ROWS
#define PENSTOCK_WINDOW_ROWS 64
#endif

/* Half-open interval [lower, upper). */
typedef struct {
    int32_t lower, upper;
} penstock_span;

/* Taps inside [0, extent): tap k is at first + k * dilation. */
static inline penstock_span penstock_taps_inside(int32_t first, int32_t taps, int32_t dilation,
                                                 int32_t extent) {
    const int32_t lower = first < 0 ? (dilation - 1 - first) / dilation : 0;
    const int32_t upper = first < extent ? (extent - 1 - first) / dilation + 1 : 0;
    const penstock_span inside = {lower, upper < taps ? upper : taps};
    return inside;
}

/* Addresses of rows first + k * dilation of a tensor, for the taps k inside it. */
static inline void penstock_window_rows(const penstock_source *x, int32_t first, int32_t dilation,
                                        penstock_span inside, const int8_t **rows) {
    for (int32_t k = inside.lower; k < inside.upper; k++) {
        rows[k] = penstock_read_row(x, first + k * dilation);
    }
}

#endif
