/* copy.h: copies between memories: by memcpy, or by functions that you provide (DMA).
 *
 * Compile with -DPENSTOCK_COPY_BEGIN=my_begin -DPENSTOCK_COPY_WAIT=my_wait, and define two
 * functions:
 *     my_begin(engine, token, target, source, bytes)  starts a copy and may return before it
 *                                                     completes; a token may have many copies
 *     my_wait(engine, token)                          returns when all copies that the engine
 *                                                     started with this token have completed
 * In between, nothing reads the target or writes source or target.  Engines and tokens are numbered
 * from 0. */
#ifndef PENSTOCK_COPY_H
#define PENSTOCK_COPY_H

#include <stddef.h>
#include <string.h>

#ifdef PENSTOCK_COPY_BEGIN
void PENSTOCK_COPY_BEGIN(int engine, int token, void *target, const void *source, size_t bytes);
#else
#define PENSTOCK_COPY_BEGIN penstock_copy_now
static inline void penstock_copy_now(int engine, int token, void *target, const void *source,
                                     size_t bytes) {
    (void)engine;
    (void)token;
    memcpy(target, source, bytes);
}
#endif

#ifdef PENSTOCK_COPY_WAIT
void PENSTOCK_COPY_WAIT(int engine, int token);
#else
#define PENSTOCK_COPY_WAIT(engine, token) ((void)0)
#endif

#endif
