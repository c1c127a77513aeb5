/* real.h: access to float elements stored as bytes. */
#ifndef PENSTOCK_REAL_H
#define PENSTOCK_REAL_H

#include <stdint.h>
#include <string.h>

/* Element `index`. */
static inline float penstock_get_f32(const int8_t *row, int32_t index) {
    float element;
    memcpy(&element, row + index * 4, sizeof element);
    return element;
}

static inline void penstock_put_f32(int8_t *row, int32_t index, float element) {
    memcpy(row + index * 4, &element, sizeof element);
}

#endif
