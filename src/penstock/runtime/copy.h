/* copy.h: how bytes move from one memory to another: by memcpy, at once; or by whatever you name.
 *
 * Compile with -DPENSTOCK_COPY_BEGIN=my_begin -DPENSTOCK_COPY_WAIT=my_wait, and bring two functions:
 *     my_begin(engine, token, target, source, bytes)  begins to copy, and may return before it is
 *                                                     done; copies of one token may be many
 *     my_wait(engine, token)                          returns when all that the engine began under
 *                                                     this token is done, perhaps nothing
 * Between the two, nobody reads the target nor writes either.  Engines and tokens count from 0. */
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
