/* integer_pairs: a function of two integers, element by element; inputs may be broadcast.
 *   a, b, y  integers of `bytes` bytes, modulo 2^(8 bytes)
 * Quotients are rounded towards 0, and those by 0 are 0, with the dividend as the remainder.  Shifts
 * by at least the width of an element leave 0, or -1 of negative numbers to the right.
 * Computes rows [lower, upper) of y.
 * Source: ONNX operator specification, Add, Sub, Mul, Div, Mod, Max, Min, Pow, BitwiseAnd, BitwiseOr,
 * BitwiseXor, BitShift. */
#ifndef PENSTOCK_INTEGER_PAIRS_H
#define PENSTOCK_INTEGER_PAIRS_H

#include "broadcast.h"
#include "integers.h"

struct integer_pairs {
    PENSTOCK_BROADCAST_MEMBERS;
    int32_t bytes, is_signed, function;
};

enum penstock_integer_function {
    PENSTOCK_ADD, PENSTOCK_SUB, PENSTOCK_MUL, PENSTOCK_DIV, PENSTOCK_MOD, PENSTOCK_REMAINDER,
    PENSTOCK_MAX, PENSTOCK_MIN, PENSTOCK_POW, PENSTOCK_AND, PENSTOCK_OR, PENSTOCK_XOR,
    PENSTOCK_LEFT, PENSTOCK_RIGHT
};

/* a^b modulo 2^64; for negative b, 1 / a^-b rounded towards 0. */
static inline int64_t penstock_integer_power(int64_t a, int64_t b) {
    if (b < 0) {
        return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
    }
    uint64_t power = 1, square = (uint64_t)a;
    for (; b > 0; b >>= 1) {
        power = b & 1 ? power * square : power;
        square *= square;
    }
    return (int64_t)power;
}

/* Remainder of a / b, with the sign of b if `floored`, else of a. */
static inline int64_t penstock_integer_remainder(int64_t a, int64_t b, int32_t floored) {
    if (b == 0 || b == -1) {
        return b == 0 ? a : 0;
    }
    const int64_t rest = a % b;
    return floored && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline int64_t penstock_integer_shift(int64_t a, int64_t b, int32_t bits, int32_t right) {
    if (b < 0 || b >= bits) {
        return right && a < 0 ? -1 : 0;
    }
    return right ? a >> b : (int64_t)((uint64_t)a << b);
}

static inline int64_t penstock_integer_pair(const struct integer_pairs *p, int64_t a, int64_t b) {
    switch (p->function) {
    case PENSTOCK_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case PENSTOCK_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
    case PENSTOCK_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case PENSTOCK_DIV:
        return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
    case PENSTOCK_MOD:
    case PENSTOCK_REMAINDER:
        return penstock_integer_remainder(a, b, p->function == PENSTOCK_MOD);
    case PENSTOCK_MAX: return a > b ? a : b;
    case PENSTOCK_MIN: return a < b ? a : b;
    case PENSTOCK_POW: return penstock_integer_power(a, b);
    case PENSTOCK_AND: return a & b;
    case PENSTOCK_OR: return a | b;
    case PENSTOCK_XOR: return a ^ b;
    default:
        return penstock_integer_shift(a, b, 8 * p->bytes, p->function == PENSTOCK_RIGHT);
    }
}

#define PENSTOCK_ELEMENT(row, index) penstock_get_integer(row, index, p->bytes, p->is_signed)
PENSTOCK_KERNEL void integer_pairs(const struct integer_pairs *p, const penstock_source *x,
                                   const penstock_sink *y, int32_t lower, int32_t upper) {
    PENSTOCK_FOR_EACH_PAIR_AT(int64_t, PENSTOCK_ELEMENT,
                              penstock_put_integer(out, index, p->bytes,
                                                   penstock_integer_pair(p, a, b)))
}
#undef PENSTOCK_ELEMENT

#endif
