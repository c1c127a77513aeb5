/* real.h: access to float elements stored as bytes, at addresses that are multiples of four. */
#ifndef PENSTOCK_REAL_H
#define PENSTOCK_REAL_H

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define PENSTOCK_ALIGNED(address) __builtin_assume_aligned(address, 4)
#else
#define PENSTOCK_ALIGNED(address) (address)
#endif

/* Element `index`. */
static inline float penstock_get_f32(const int8_t *row, int32_t index) {
    float element;
    memcpy(&element, PENSTOCK_ALIGNED(row + index * 4), sizeof element);
    return element;
}

static inline void penstock_put_f32(int8_t *row, int32_t index, float element) {
    memcpy(PENSTOCK_ALIGNED(row + index * 4), &element, sizeof element);
}

/* a * b, rounded: compilers must not fuse it with an addition, which would not round it. */
static inline float penstock_product(float a, float b) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__arm__)) && !defined(__FMA__) &&         \
    !defined(__ARM_FP)
    return a * b; /* nothing to fuse it to */
#elif defined(__GNUC__) && (defined(__x86_64__) || defined(__arm__) || defined(__aarch64__))
#if defined(__arm__)
#define PENSTOCK_FLOAT_REGISTER "+t"
#elif defined(__aarch64__)
#define PENSTOCK_FLOAT_REGISTER "+w"
#else
#define PENSTOCK_FLOAT_REGISTER "+x"
#endif
#if defined(__arm__) && !defined(__clang__)
    float product; /* an operand that is read and written costs GCC moves */
    __asm__("vmul.f32 %0, %1, %2" : "=t"(product) : "t"(a), "t"(b));
#else
    float product = a * b;
    __asm__("" : PENSTOCK_FLOAT_REGISTER(product));
#endif
    return product;
#else
    const volatile float product = a * b;
    return product;
#endif
}

/* Clamps to [bounds[0], bounds[1]]; NaN stays. */
static inline float penstock_bounded_f32(float element, const float *bounds) {
    const float raised = element < bounds[0] ? bounds[0] : element;
    return raised > bounds[1] ? bounds[1] : raised;
}

#endif
