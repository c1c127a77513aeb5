/* queue.h: rings that rotate.
 *
 * The rows of a queue stay in their slots from run to run.  A counter of 16 bits, in the arena,
 * states in which slot the oldest row is.  A table holds the offsets of all slots twice, so that the
 * rows of the queue, in order, are at the entries from the counter on. */
#ifndef PENSTOCK_QUEUE_H
#define PENSTOCK_QUEUE_H

#include "view.h"

/* The slot of the oldest row. */
static inline uint16_t penstock_first_slot(const int8_t *counter) {
    uint16_t slot;
    memcpy(&slot, counter, sizeof slot);
    return slot;
}

/* Drops the `step` oldest rows of a ring with `slots` slots. */
static inline void penstock_advance(int8_t *counter, uint32_t step, uint32_t slots) {
    const uint16_t slot = (uint16_t)((penstock_first_slot(counter) + step) % slots);
    memcpy(counter, &slot, sizeof slot);
}

#endif
