/* nvdla.h: NVDLA's driver, as penstock calls it.
 *
 * A stream is words of 32 bits, little-endian: the number of a configuration, how many places
 * follow, for each place (write, base); then writes of two words, a register's address and its
 * value.  To the value of a place's write, the address of its base is added.  A layer is done when
 * the write that starts its last unit returns. */
#ifndef NVDLA_H
#define NVDLA_H

#include <stdint.h>

/* Runs a stream of `bytes`; returns when it is done. */
void nvdla_submit(const void *stream, int32_t bytes, void *bases[]);

#endif
