/* view.h: views, through which kernels access tensors.
 *
 * A tensor consists of rows of bytes.  A row comprises the last two axes of a tensor of rank 3 or
 * more, otherwise the last axis; one row index runs over the other axes.  Row r of a view starts at
 *     base + r * pitch            if r < ring; a whole tensor is a ring of all its rows,
 *     base + table[r]             if there is a table of row offsets; `ring` is then 0,
 *     base + (r % ring) * pitch   otherwise.
 * Kernels access memory as bytes only; wider elements are copied in and out. */
#ifndef PENSTOCK_VIEW_H
#define PENSTOCK_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(int) >= 4, "kernels compute in int, which must have 32 bits");

/* Step functions are never inlined: debuggers, profilers and simulators see one function per
 * step, and the stack use that penstock measures is that of these files.  A kernel is either never
 * inlined and compiled for any caller, or inlined into every caller, so that its cycles do not
 * depend on the other layers of the network. */
#if defined(__clang__)
#define PENSTOCK_STEP static __attribute__((noinline))
#define PENSTOCK_KERNEL static __attribute__((noinline, used)) /* `used`: prevents specialisation */
#elif defined(__GNUC__) && __GNUC__ >= 8
#define PENSTOCK_STEP static __attribute__((noipa)) /* neither inlined, cloned nor merged */
#define PENSTOCK_KERNEL PENSTOCK_STEP
#elif defined(__GNUC__)
#define PENSTOCK_STEP static __attribute__((noinline, noclone))
#define PENSTOCK_KERNEL PENSTOCK_STEP
#else
#define PENSTOCK_STEP static
#define PENSTOCK_KERNEL static
#endif
#if defined(__GNUC__)
#define PENSTOCK_INLINE_KERNEL static inline __attribute__((always_inline))
#else
#define PENSTOCK_INLINE_KERNEL static inline
#endif

typedef struct {
    const int8_t *base;     /* address of row 0 */
    const uint32_t *table;  /* offset of each row in bytes, or NULL */
    int32_t pitch;          /* bytes from one row to the next */
    int32_t ring;           /* rows in the buffer; 0 if there is a table */
} penstock_source;

typedef struct {
    int8_t *base;
    const uint32_t *table;
    int32_t pitch;
    int32_t ring;
} penstock_sink;

/* Called after each kernel call with the rows that it wrote.  A tool that observes tensors may
 * define it as the name of a function. */
#ifdef PENSTOCK_TRACE
void PENSTOCK_TRACE(int step, const penstock_sink *y, int32_t lower, int32_t upper);
#else
#define PENSTOCK_TRACE(step, y, lower, upper) ((void)0)
#endif

/* Offset of row r; the fast path is for whole tensors. */
static inline int32_t penstock_row_offset(const uint32_t *table, int32_t pitch, int32_t ring,
                                          int32_t r) {
    if (r < ring) {
        return r * pitch;
    }
    return table ? (int32_t)table[r] : r % ring * pitch;
}

/* Address of row r for reading. */
static inline const int8_t *penstock_read_row(const penstock_source *view, int32_t r) {
    return view->base + penstock_row_offset(view->table, view->pitch, view->ring, r);
}

/* Address of row r for writing. */
static inline int8_t *penstock_write_row(const penstock_sink *view, int32_t r) {
    return view->base + penstock_row_offset(view->table, view->pitch, view->ring, r);
}

/* Elements of rows of int8; `wide.h` and `real.h` have the same for wider elements. */
static inline int8_t penstock_get_s8(const int8_t *row, int32_t index) {
    return row[index];
}

static inline void penstock_put_s8(int8_t *row, int32_t index, int32_t element) {
    row[index] = (int8_t)element;
}

#endif
