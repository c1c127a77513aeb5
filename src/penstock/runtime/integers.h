/* integers.h: access to integers of 1, 2, 4 or 8 bytes. */
#ifndef PENSTOCK_INTEGERS_H
#define PENSTOCK_INTEGERS_H

#include <stdint.h>
#include <string.h>

/* Element `index`; those of 4 and 8 bytes are signed. */
static inline int64_t penstock_get_integer(const int8_t *row, int32_t index, int32_t bytes,
                                           int32_t is_signed) {
    const int8_t *source = row + index * bytes;
    if (bytes == 1) {
        return is_signed ? *source : (uint8_t)*source;
    }
    if (bytes == 2) {
        int16_t element;
        memcpy(&element, source, sizeof element);
        return element;
    }
    if (bytes == 4) {
        int32_t element;
        memcpy(&element, source, sizeof element);
        return element;
    }
    int64_t element;
    memcpy(&element, source, sizeof element);
    return element;
}

/* Writes the lowest bits of an element. */
static inline void penstock_put_integer(int8_t *row, int32_t index, int32_t bytes,
                                        int64_t element) {
    int8_t *target = row + index * bytes;
    if (bytes == 1) {
        *target = (int8_t)element;
    } else if (bytes == 2) {
        const int16_t narrow = (int16_t)element;
        memcpy(target, &narrow, sizeof narrow);
    } else if (bytes == 4) {
        const int32_t narrow = (int32_t)element;
        memcpy(target, &narrow, sizeof narrow);
    } else {
        memcpy(target, &element, sizeof element);
    }
}

#endif
