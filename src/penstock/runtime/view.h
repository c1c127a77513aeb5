/* view.h: how kernels see tensors.
 *
 * A tensor is rows of bytes; a row is its last two axes (of rank 3 or more), else its last, and the
 * axes before are counted through in one row index.  Row r of a view lies at
 *     base + r * pitch            for r below `ring`; a whole tensor is a ring with all its rows,
 *     base + table[r]             above it, where there is a table of rows placed one by one,
 *     base + (r % ring) * pitch   otherwise.  Where there is a table, `ring` is 0.
 * Kernels touch memory as bytes only; wider elements are copied in and out. */
#ifndef PENSTOCK_VIEW_H
#define PENSTOCK_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Step functions are internal and stay functions: debuggers, profilers and simulators see one
 * function per step, and the stack use that penstock measures is that of these files. */
#if defined(__clang__)
#define PENSTOCK_STEP static __attribute__((noinline))
#elif defined(__GNUC__) && __GNUC__ >= 8
#define PENSTOCK_STEP static __attribute__((noipa)) /* neither inlined, cloned nor merged */
#elif defined(__GNUC__)
#define PENSTOCK_STEP static __attribute__((noinline, noclone))
#else
#define PENSTOCK_STEP static
#endif

typedef struct {
    const int8_t *base;     /* where row 0 lies */
    const uint32_t *table;  /* offset of each row in bytes, or NULL */
    int32_t pitch;          /* bytes from one row to the next */
    int32_t ring;           /* rows that the buffer holds; 0 where there is a table */
} penstock_source;

typedef struct {
    int8_t *base;
    const uint32_t *table;
    int32_t pitch;
    int32_t ring;
} penstock_sink;

/* Called after each call of a kernel, with the rows that it wrote; a tool that observes tensors may
 * name a function of its own. */
#ifdef PENSTOCK_TRACE
void PENSTOCK_TRACE(int step, const penstock_sink *y, int32_t lower, int32_t upper);
#else
#define PENSTOCK_TRACE(step, y, lower, upper) ((void)0)
#endif

/* Offset of row r; the rows of whole tensors take the shortest way. */
static inline int32_t penstock_row_offset(const uint32_t *table, int32_t pitch, int32_t ring,
                                          int32_t r) {
    if (r < ring) {
        return r * pitch;
    }
    return table ? (int32_t)table[r] : r % ring * pitch;
}

/* Row r of a tensor that is read. */
static inline const int8_t *penstock_read_row(const penstock_source *view, int32_t r) {
    return view->base + penstock_row_offset(view->table, view->pitch, view->ring, r);
}

/* Row r of a tensor that is written. */
static inline int8_t *penstock_write_row(const penstock_sink *view, int32_t r) {
    return view->base + penstock_row_offset(view->table, view->pitch, view->ring, r);
}

#endif
