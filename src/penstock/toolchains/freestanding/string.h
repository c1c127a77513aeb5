/* string.h for compilers without one: the functions that generated C11 code uses.
 *
 * A freestanding clang treats memcpy like any other function: even a four-byte copy is a call.  As
 * builtins, small copies become loads and stores, and large ones call the compiler's run-time
 * library. */
#ifndef PENSTOCK_FREESTANDING_STRING_H
#define PENSTOCK_FREESTANDING_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);

#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset
#define memcmp __builtin_memcmp

#endif
