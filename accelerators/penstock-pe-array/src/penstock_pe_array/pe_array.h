/* pe_array.h: the driver interface of a PE array that generated code calls.
 *
 * A stream is a sequence of register writes, each of two little-endian words: the number of a
 * register (pe_array_registers.h) in bits 0 to 7, with 1 + the index of a base address in bits 8 to
 * 15 if the value is relative to it (bit 16: which is in the global buffer), and the value.  All
 * registers are 0 when a stream begins.  A write to register 0 starts an operation with the values
 * that the registers then have. */
#ifndef PE_ARRAY_H
#define PE_ARRAY_H

#include <stdint.h>

/* Executes a stream of `bytes` bytes, and returns when all its operations have ended. */
void pe_array_submit(const void *stream, int32_t bytes, void *bases[]);

#endif
