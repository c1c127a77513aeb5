/* wide.h: access to int16 and int32 elements stored as bytes. */
#ifndef PENSTOCK_WIDE_H
#define PENSTOCK_WIDE_H

#include <stdint.h>
#include <string.h>

/* Element `index`. */
static inline int32_t penstock_get_s16(const int8_t *row, int32_t index) {
    int16_t element;
    memcpy(&element, row + index * 2, sizeof element);
    return element;
}

static inline void penstock_put_s16(int8_t *row, int32_t index, int32_t element) {
    const int16_t narrow = (int16_t)element;
    memcpy(row + index * 2, &narrow, sizeof narrow);
}

static inline int32_t penstock_get_s32(const int8_t *row, int32_t index) {
    int32_t element;
    memcpy(&element, row + index * 4, sizeof element);
    return element;
}

static inline void penstock_put_s32(int8_t *row, int32_t index, int32_t element) {
    memcpy(row + index * 4, &element, sizeof element);
}

#endif
