/* string.h for compilers that bring none: what a freestanding C11 program of ours may use.
 *
 * A freestanding clang treats memcpy as any other function, so that a four-byte copy becomes a call.
 * The builtins keep their meaning: small copies become loads and stores, large ones become calls of
 * the compiler's own run-time library. */
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
