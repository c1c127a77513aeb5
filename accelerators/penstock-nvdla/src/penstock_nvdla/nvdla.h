/* nvdla.h: the driver interface of NVDLA that generated code calls.
 *
 * A stream is a sequence of little-endian 32-bit words: the index of a configuration, the number of
 * relocations, a pair (write, base) per relocation, then the register writes, each an address and a
 * value.  A relocation adds the address of its base to the value of its write.  The write that
 * starts the last unit of a layer completes its description.
 *
 * A layer starts when the one before is complete.  The exception is a convolution whose first write
 * is to CDMA's S_POINTER: it may start while the convolution before it runs, once a group of
 * registers is free.  The value 1 stands for the group that the other one does not use. */
#ifndef NVDLA_H
#define NVDLA_H

#include <stdint.h>

/* Adds the layers of a stream of `bytes` bytes to the queue, in which layers run in order.  May
 * return before they have run; the stream, and the memory that it uses, must then stay unchanged
 * until nvdla_wait returns.  `bases` is read before the function returns. */
void nvdla_submit(const void *stream, int32_t bytes, void *bases[]);

/* Waits until the queue is empty. */
void nvdla_wait(void);

#endif
